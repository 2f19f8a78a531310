"""Parse and format the texts of layouts. Syntax errors have a position.

Attributes have MLIR's syntax, as in the IREE VectorExt and XeTile documents: a name, and in angle brackets ``field =
value`` separated by commas. ``#alias = attribute`` defines an alias. Shared layouts are sums of terms, such as
``transpose+pad(8,1)``. Whitespace is ignored, and ``//`` starts a comment. NestedLayout, WgMap, LoweringConfig and
SharedLayout use these functions to parse and format their texts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALIAS = re.compile(r"#[A-Za-z_][A-Za-z0-9_.]*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")


class LayoutSyntaxError(ValueError):
    """Error in the text of a layout: the character at ``position`` (from 0) is not the start of ``expected``."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        following = repr(text[position : position + 12]) if position < len(text) else "the end of the text"
        super().__init__(f"at position {position}: expected {expected}, found {following}")
        self.position, self.expected = position, expected


class TextReader:
    """Reader of a text, from left to right.

    Every method first skips whitespace and comments. A method raises LayoutSyntaxError with the position if the text
    that it expects is missing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.aliases: dict[str, Any] = {}  # attributes that aliases define, by name
        self._position = 0

    @property
    def position(self) -> int:
        """Index of the next token in the text."""
        match = _SPACE.match(self.text, self._position)
        self._position = match.end() if match is not None else self._position
        return self._position

    def fail(self, expected: str, position: int | None = None) -> LayoutSyntaxError:
        """Return the error for ``position`` (default: the current position), which the caller raises."""
        return LayoutSyntaxError(self.text, self.position if position is None else position, expected)

    def accept(self, token: str) -> bool:
        """If ``token`` is next, skip it and return True.

        A token that ends in a letter only matches at the end of a word.
        """
        end = self.position + len(token)
        if not self.text.startswith(token, self.position):
            return False
        if end < len(self.text) and (token[-1] + self.text[end]).isidentifier():
            return False
        self._position = end
        return True

    def expect(self, *tokens: str) -> str:
        """Skip the next token, which must be one of ``tokens``, and return it."""
        for token in tokens:
            if self.accept(token):
                return token
        raise self.fail(" or ".join(repr(token) for token in tokens))

    def at_end(self) -> bool:
        """True if the whole text has been read."""
        return self.position == len(self.text)

    def end(self) -> None:
        """Check that no text follows."""
        if not self.at_end():
            raise self.fail("the end of the text")

    def integers(self, opening: str = "[", closing: str = "]") -> tuple[int, ...]:
        """Read ``[1, 2, 3]``, which may be empty."""
        self.expect(opening)
        values: list[int] = []
        if self.accept(closing):
            return ()
        while not values or self.expect(",", closing) == ",":
            values.append(int(self._match(_INTEGER, "an integer")))
        return tuple(values)

    def fields(self, known: Mapping[str, Callable[[], Any]], closing: str, optional: Collection[str] = ()) -> Any:
        """Read ``name = value, ...`` up to and including ``closing``. Return a dict.

        Fields may be in any order. Each field may occur once.

        Args:
            known: For each field's name, the function that reads its value. At least one field must occur.
            closing: Text that follows the last field.
            optional: Fields that may be missing.
        """
        fields: dict[str, Any] = {}
        while True:
            left = [name for name in known if name not in fields]
            expected = f"one of the fields {', '.join(left)}" if len(left) > 1 else f"the field {left[0]}"
            start = self.position
            name = self._match(_WORD, expected)
            if name not in left:
                raise self.fail(expected, start)
            self.expect("=")
            fields[name] = known[name]()
            left.remove(name)
            tokens = ([","] if left else []) + ([closing] if set(left) <= set(optional) else [])
            if self.expect(*tokens) == closing:
                return fields

    def alias(self) -> str:
        """If an alias definition ``#name =`` is next, skip it and return ``#name``; otherwise return ""."""
        match = _ALIAS.match(self.text, start := self.position)
        if match is not None:
            self._position = match.end()
            if self.accept("="):
                if match.group() in self.aliases:
                    raise self.fail(f"a new name, because {match.group()} is already defined", start)
                return match.group()
        self._position = start
        return ""

    def reference(self, expected: str) -> Any:
        """Read an alias and return its attribute. ``expected`` describes the alternatives, for the error message."""
        start = self.position
        name = self._match(_ALIAS, expected)
        if name not in self.aliases:
            raise self.fail(expected, start)
        return self.aliases[name]

    def _match(self, pattern: re.Pattern[str], expected: str) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise self.fail(expected)
        self._position = match.end()
        return match.group()


def parse_attributes(text: str, read: Callable[[TextReader], T]) -> dict[str, T]:
    """Return the attributes of ``text`` by name, in order.

    The text is a sequence of ``#name = attribute``, optionally followed by an attribute without a name (""). ``read``
    reads one attribute, which may refer to earlier attributes by name.
    """
    reader = TextReader(text)
    while True:
        name = reader.alias()
        reader.aliases[name] = read(reader)
        if not name:
            reader.end()
        if reader.at_end():
            return reader.aliases


def parse_attribute(text: str, read: Callable[[TextReader], T]) -> T:
    """Return the last attribute of a text; see ``parse_attributes``."""
    return list(parse_attributes(text, read).values())[-1]


def format_fields(fields: Mapping[str, Sequence[int] | Sequence[list[int]]]) -> str:
    """Format fields as MLIR does, for example ``a = [1, 2], b = [3]``."""
    return ", ".join(f"{name} = {list(values)}" for name, values in fields.items())


def integer_tuple(name: str, values: Iterable[int], minimum: int) -> tuple[int, ...]:
    """Return ``values`` as a tuple of Python ints.

    Raises ValueError that names the field ``name`` if an entry is not an integer (or is a bool), or is below
    ``minimum``.
    """
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
