"""Triton functions, and functions that make their arguments, by the names ``FILE:FUNCTION``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from autosched.user_kernels.expressions import suggestion
from measurements.files import python_file
from measurements.files.python_file import load_module


class NotLoaded(ValueError):
    """The file or the function cannot be had. The message is one line."""


def load(place: str, what: str) -> Any:
    """Return what ``FILE:NAME`` names. The file is imported as Python would from its own folder, once per process.

    Raises NotLoaded; ``what`` names the option for people.
    """
    file, colon, name = place.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise NotLoaded(f"{what} {place!r}: write FILE:NAME, such as kernels.py:matmul")
    path = Path(file)
    if not path.is_file():
        raise NotLoaded(f"{what}: {file}: no such file")
    module = _module(path.resolve(), what)
    found = getattr(module, name, None)
    if found is None:
        known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise NotLoaded(f"{what}: {file} has no {name}: {suggestion(name, known)}")
    return found


def _module(path: Path, what: str) -> Any:
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path:
        return known
    name = path.stem if known is None else f"autosched_{path.stem}"
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for good: functions may import when they are called
    try:
        return load_module(path, name)
    except python_file.NotLoaded as error:
        raise NotLoaded(f"{what}: {error}") from error
