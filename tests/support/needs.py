"""Marks of tests: what they need that a machine may lack, and which of a sweep are for the night."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest

from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version


def _nvrtc_missing() -> bool:
    try:
        toolchain_version()
    except NvrtcMissing:
        return True
    return False


def cpp_compiler() -> str:
    """Any C++ compiler of the host; skips the test where there is none."""
    found = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return found or pytest.skip("no host C++ compiler")


def sweep(values: Iterable[Any], daily: Collection[str], name: Callable[[Any], str] = str) -> list[Any]:
    """Return the parameters of a test, of which all but those with a name in ``daily`` are tried with --nightly only.
    Raises ValueError where ``daily`` names one that is not there."""
    named = {name(value): value for value in values}
    if not set(daily) <= named.keys():
        raise ValueError(f"{sorted(set(daily) - named.keys())} are not among {', '.join(named)}")
    return [
        pytest.param(value, id=key, marks=() if key in daily else pytest.mark.nightly) for key, value in named.items()
    ]


needs_nvrtc = pytest.mark.skipif(_nvrtc_missing(), reason="NVRTC is not installed")
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
