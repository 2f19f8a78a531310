"""The text of layout attributes: a reader that says where a malformed text goes wrong, and the printing of fields.

The syntax is MLIR's attribute syntax as the IREE VectorExt and XeTile documents use it: a name, angle brackets, and
``field = [integers]`` separated by commas. Whitespace is free. The attributes themselves (NestedLayout, WgMap,
LoweringConfig) build their ``parse`` and ``str`` from these parts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"-?[0-9]+")


class AttributeSyntaxError(ValueError):
    """A text that is not an attribute. ``position`` counts characters from 0; ``expected`` says what belongs there."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        found = repr(text[position : position + 12]) if position < len(text) else "the end of the text"
        super().__init__(f"at position {position}: expected {expected}, found {found}")
        self.text, self.position, self.expected = text, position, expected


class AttributeReader:
    """Reads an attribute from left to right. Every method skips leading whitespace; those that cannot find what they
    are asked for raise AttributeSyntaxError at the place where it should have been."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, expected: str) -> AttributeSyntaxError:
        """The error for the current position, to be raised by the caller."""
        self._skip_space()
        return AttributeSyntaxError(self.text, self.position, expected)

    def accept(self, token: str) -> bool:
        """Step over ``token`` if it is next. A token that ends in a letter must end a word too."""
        self._skip_space()
        end = self.position + len(token)
        if not self.text.startswith(token, self.position):
            return False
        cuts_a_word = (token[-1] + self.text[end : end + 1]).isidentifier() and end < len(self.text)
        if cuts_a_word:
            return False
        self.position = end
        return True

    def expect(self, *tokens: str) -> str:
        """Step over whichever of ``tokens`` is next and return it; put longer tokens before their prefixes."""
        for token in tokens:
            if self.accept(token):
                return token
        raise self.fail(" or ".join(repr(token) for token in tokens))

    def word(self, expected: str) -> str:
        """An identifier; ``expected`` names it in the error."""
        self._skip_space()
        match = _WORD.match(self.text, self.position)
        if match is None:
            raise self.fail(expected)
        self.position = match.end()
        return match.group()

    def integer(self) -> int:
        self._skip_space()
        match = _INTEGER.match(self.text, self.position)
        if match is None:
            raise self.fail("an integer")
        self.position = match.end()
        return int(match.group())

    def integers(self) -> tuple[int, ...]:
        """``[1, 2, 3]``, possibly empty."""
        self.expect("[")
        if self.accept("]"):
            return ()
        values = [self.integer()]
        while self.expect(",", "]") == ",":
            values.append(self.integer())
        return tuple(values)

    def field_name(self, known: Sequence[str], seen: Iterable[str]) -> str:
        """The ``name =`` of one of the ``known`` fields that is not among those ``seen`` already."""
        self._skip_space()
        start = self.position
        missing = [name for name in known if name not in seen]
        expected = f"one of the fields {', '.join(missing)}" if len(missing) > 1 else f"the field {missing[0]}"
        name = self.word(expected)
        if name not in missing:
            raise AttributeSyntaxError(self.text, start, expected)
        self.expect("=")
        return name

    def integer_fields(self, names: Sequence[str], close: str) -> dict[str, tuple[int, ...]]:
        """``a = [..], b = [..]`` up to and with ``close``: each of ``names`` once, in any order."""
        fields: dict[str, tuple[int, ...]] = {}
        while len(fields) < len(names):
            if fields:
                self.expect(",")
            name = self.field_name(names, fields)
            fields[name] = self.integers()
        self.expect(close)
        return fields

    def end(self) -> None:
        """Nothing but whitespace may follow."""
        self._skip_space()
        if self.position != len(self.text):
            raise self.fail("the end of the text")

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        self.position = match.end() if match is not None else self.position


def format_fields(fields: Mapping[str, Sequence[int] | Sequence[list[int]]]) -> str:
    """``a = [1, 2], b = [3]``."""
    return ", ".join(f"{name} = {list(values)}" for name, values in fields.items())


def integer_tuple(name: str, values: Iterable[int], minimum: int) -> tuple[int, ...]:
    """``values`` as a tuple of Python ints. Raises ValueError naming the field ``name`` when an entry is no integer
    (a bool is none) or lies under ``minimum``."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is {values!r}: give a sequence of integers")
    result = []
    for i, value in enumerate(values):
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None:
            raise ValueError(f"{name}[{i}] is {value!r}: give an integer")
        if number < minimum:
            raise ValueError(f"{name}[{i}] is {number}: it must be at least {minimum}")
        result.append(number)
    return tuple(result)
