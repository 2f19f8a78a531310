"""What the runtime refuses, as far as that needs no GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autosched.runtime import _check_apart


def view(start: int, size: int) -> SimpleNamespace:
    return SimpleNamespace(data=SimpleNamespace(ptr=start), nbytes=size)


def test_an_output_that_overlaps_an_input_is_refused() -> None:
    _check_apart({"a": view(0, 64), "b": view(128, 64), "out": view(64, 64)}, "out")
    with pytest.raises(ValueError, match="out overlaps b in memory"):
        _check_apart({"a": view(0, 64), "b": view(120, 64), "out": view(64, 64)}, "out")
