"""Representations of dataclasses that stay short even if fields are sources, arrays or lists of findings."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping, Sized
from typing import Any

MOST = 900  # maximum number of characters of an object's representation
_MOST_OF_FIELD, _MOST_OF_TEXT = 120, 400


class _Fields(reprlib.Repr):
    """Formatter that shortens long values: arrays to shape and type, collections and texts to a few elements."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 60, _MOST_OF_FIELD
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = 3

    def repr1(self, x: Any, level: int) -> str:
        shape, kind = getattr(x, "shape", None), getattr(x, "dtype", None)
        if shape and kind is not None and isinstance(x, Sized):
            return f"<{kind}{list(shape)}>"
        if isinstance(x, Mapping) and not isinstance(x, dict):
            x = dict(x)
        text = super().repr1(x, level)
        return text if len(text) <= _MOST_OF_FIELD else f"{text[: _MOST_OF_FIELD - 3]}..."


_FIELDS = _Fields()


def short_repr(self: Any) -> str:
    """Return ``Name(field=value, ...)`` of at most ``MOST`` characters. Use it as ``__repr__`` of a dataclass.

    Long values are shortened, and fields with default values are omitted.
    """
    shown = []
    for field in dataclasses.fields(self):
        value = getattr(self, field.name)
        if field.repr and not _is_default(field, value):
            # Texts up to this length, such as messages, stay whole.
            whole = isinstance(value, str) and len(value) <= _MOST_OF_TEXT
            shown.append(f"{field.name}={repr(value) if whole else _FIELDS.repr(value)}")
    return cut(f"{type(self).__qualname__}({', '.join(shown)})")


def cut(text: str) -> str:
    """Return the representation of an object, shortened to ``MOST`` characters."""
    return text if len(text) <= MOST else f"{text[: MOST - 4]}...)"


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return isinstance(value, Sized) and not len(value)
    return value is field.default or (isinstance(value, str | int | float | tuple) and value == field.default)
