"""Read tokens of a listing (names, positions, numbers, types and attributes) in all spellings that documents use."""

from __future__ import annotations

import re
from typing import NoReturn

from search_spaces.layouts.lowering_config import LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.text import LayoutSyntaxError, TextReader
from search_spaces.layouts.wg_map import ROW_MAJOR, WgMap
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.text.listing import Attribute, Combined, Expression, Order, Sign, Type

_NAME = re.compile(r"%\s?(c\d+(?=tile<)|\w+?(?=locality<)|\w+)('*(?:#\d+)?)")
_WORD = re.compile(r"[A-Za-z_$][\w.$]*")
_NUMBER = re.compile(r"-?(?:inf|nan|\d+\.\d*(?:[eE][-+]?\d+)?|\d+(?:[eE][-+]?\d+)?)\b")
_COUNT = re.compile(r":(\d+)")
_KIND = re.compile(r"<(\w+)>")
_DIMS = re.compile(r"(?:(?:\d+|\?|[A-Z]\w*?)\s*x\s*)*")
_ELEMENT = re.compile(r"(\d*)(e\dm\d|[a-z]+\d*)")
_TYPE = re.compile(r"!?(?:xetile\.)?(tile|vector|memref|tensor_desc|tensor)\s*<|\b(i64|index|i1|f32|f16)\b")
_AFFINE = re.compile(r"affine_map\s*=?\s*<\s*\(([^)]*)\)\s*->\s*\(([^)]*)\)\s*>")
_STRIDED = re.compile(r"strided\s*<?\s*\[([^\]]*)\](?:\s*,\s*offset:\s*\?)?\s*>?")
_REFERENCE = re.compile(r"#[A-Za-z_][\w.]*")
_PRODUCTS: tuple[Sign, ...] = ("*", "floordiv", "mod")
_BOUNDS: tuple[Sign, ...] = ("min", "max")
_ELEMENTS = {"float": "f32", "xb16": "bf16", "b16": "bf16"}


class Tokens(TextReader):
    """Reads a listing from left to right. ``notes`` collects how ambiguities were resolved, with line numbers."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.notes: list[str] = []
        self.constants_shadowed: set[str] = set()

    @property
    def line(self) -> int:
        """Line number of the current position."""
        return self.text.count("\n", 0, self.position) + 1

    def note(self, reading: str) -> None:
        """Record how an ambiguity at the current line was resolved."""
        text = f"{self.file}:{self.line}: {reading}"
        if text not in self.notes:
            self.notes.append(text)

    def refuse(self, reason: str) -> NoReturn:
        """Raise ProgramError with the current line number."""
        raise ProgramError(f"{self.file}:{self.line}: {reason}")

    def missing(self, expected: str) -> NoReturn:
        """Raise ProgramError that names the expected token and the text found instead."""
        end = self.text.find("\n", self.position)
        following = self.text[self.position : end if end >= 0 else None][:24].rstrip()
        self.refuse(f"expected {expected}, found {following!r}" if following else f"expected {expected}, found the end")

    def expect(self, *tokens: str) -> str:
        """Consume one of the tokens, and return it. Raises ProgramError if none of them comes next."""
        for token in tokens:
            if self.accept(token):
                return token
        self.missing(" or ".join(f"{token!r}" for token in tokens))

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume the text that matches a pattern at the current position. Return the match, or None."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self._position = match.end()
        return match

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern at the current position without consuming the text."""
        return pattern.match(self.text, self.position)

    def word(self) -> str:
        """Return the next word without consuming it; "" if there is none."""
        match = self.peek(_WORD)
        return match.group() if match is not None else ""

    def take_word(self) -> str:
        """Consume the next word, and return it. Raises ProgramError if there is none."""
        match = self.match(_WORD)
        if match is None:
            self.missing("a word")
        return match.group()

    def kind(self) -> str:
        """Consume a kind in angle brackets, and return it; "" if there is none."""
        match = self.match(_KIND)
        return match.group(1) if match is not None else ""

    # Names and positions

    def name(self) -> str | None:
        """Consume ``%name``, and return it with its suffix; None if there is none."""
        match = self.match(_NAME)
        return None if match is None else f"%{match.group(1)}{match.group(2)}"

    def names(self) -> list[Expression] | None:
        """Read ``%name``, a number such as ``%c32``, or ``%name:2``, which names two values."""
        name = self.name()
        if name is None:
            return None
        count = _COUNT.match(self.text, self._position)
        if count is not None:
            self._position = count.end()
            return [f"{name}#{i}" for i in range(int(count.group(1)))]
        return [self._constant(name)]

    def _constant(self, name: str) -> Expression:
        number = re.fullmatch(r"%c(\d+)", name)
        return name if number is None or name in self.constants_shadowed else int(number.group(1))

    def number(self) -> int | float | None:
        """Consume a number, and return it; None if there is none."""
        match = self.match(_NUMBER)
        if match is None:
            return None
        text = match.group()
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)

    def expression(self) -> Expression:
        """Read an expression of positions, such as ``%i + %k * 32`` or ``min(%i, 64) floordiv 2``."""
        total = self._product()
        while True:
            if self.accept("=="):
                total = Combined("==", (total, self._product()))
            elif self.accept("+"):
                total = Combined("+", (total, self._product()))
            elif self.text.startswith("-", self.position) and not self.text.startswith("->", self.position):
                self.accept("-")
                total = Combined("+", (total, Combined("*", (self._product(), -1))))
            else:
                return total

    def _product(self) -> Expression:
        product = self._factor()
        while True:
            sign = next((s for s in _PRODUCTS if self.accept(s)), None)
            if sign is None:
                return product
            product = Combined(sign, (product, self._factor()))

    def _factor(self) -> Expression:
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        for sign in _BOUNDS:
            if self.accept(f"{sign}("):
                first = self.expression()
                self.expect(",")
                second = self.expression()
                self.expect(")")
                return Combined(sign, (first, second))
        number = self.number()
        if number is not None:
            return number
        names = self.names()
        if names is not None:
            return names[0]
        if self.word():
            return f"%{self.take_word()}"
        self.missing("a position: a name, a number, or a sum of them")

    def expressions(self, closing: str) -> tuple[Expression, ...]:
        """Read expressions up to and including the token ``closing``."""
        listed: list[Expression] = []
        while not self.accept(closing):
            start = self.position
            names = self.names()
            if names is not None and len(names) > 1:
                listed += names
            else:
                self._position = start
                listed.append(self.expression())
            if not self.accept(","):
                self.expect(closing)
                break
        return tuple(listed)

    # Attributes

    def attribute(self, name: str) -> object:
        """Read the angle brackets after ``name``, and return the attribute's value; None if it is ignored."""
        start = self.position
        if not self.accept("<"):
            self.missing("'<'")
        depth, end = 1, self._position
        while depth:
            if end >= len(self.text):
                self.refuse(f"the closing bracket of {name} is missing")
            if self.text.startswith("->", end):
                end += 2
                continue
            depth += {"<": 1, ">": -1}.get(self.text[end], 0)
            end += 1
        self._position = end
        short, body = name.removeprefix("#xetile.").removeprefix("#"), self.text[start:end]
        try:
            if short in ("wg_map", "tile_attr"):
                for alias, value in self.aliases.items():
                    if isinstance(value, WgMap):
                        body = re.sub(re.escape(alias) + r"\b", str(value), body)
                return WgMap.parse(f"#xetile.{short}{body}")
            if short.endswith("nested_layout"):
                return NestedLayout.parse(f"#iree_vector_ext.nested_layout{body}")
            if short.endswith("lowering_config"):
                return LoweringConfig.parse(f"#iree_gpu.lowering_config{body}")
        except LayoutSyntaxError as error:
            self._position = start
            self.refuse(f"{name}: {error}")
        except ValueError as error:
            self.refuse(f"{name}: {error}")
        return None

    def reference(self, expected: str) -> object:
        """Read an attribute, given in full or by name. If the name is undefined, add a note and return None."""
        match = self.match(_REFERENCE)
        if match is None:
            self.missing(expected)
        name = match.group()
        if self.text.startswith("<", self._position):
            return self.attribute(name)
        if name not in self.aliases:
            self.note(f"{name} is not defined, so it has no effect on the map of the tile or vector")
            return None
        return self.aliases[name]

    def value(self) -> Attribute:
        """Read the value of an attribute, which is listed in braces as ``name = value``."""
        if self.accept("["):
            if self.peek(_WORD):
                return tuple(str(e).lstrip("%") for e in self.expressions("]"))
            return tuple(int(e) for e in self.expressions("]") if isinstance(e, int))
        if self.accept('"'):
            end = self.text.index('"', self._position)
            text, self._position = self.text[self._position : end], end + 1
            return text
        number = self.number()
        if number is not None:
            return number
        if self.peek(_REFERENCE):
            attribute = self.reference("an attribute")
            return attribute if isinstance(attribute, LoweringConfig) else True
        return self.take_word()

    # Types

    def at_type(self) -> bool:
        """Return True if the next token begins a type."""
        return self.peek(_TYPE) is not None

    def type(self) -> Type:
        """Read a type such as ``tile<256x32xf16, #mp_a>``, in any of the documents' spellings."""
        match = self.match(_TYPE)
        if match is None:
            self.missing("a type")
        if match.group(2):
            return Type("scalar", (), match.group(2))
        kind = match.group(1)
        if kind == "tensor_desc":
            self.note("tensor_desc is read as tile")
            kind = "tile"
        dims_text = self.match(_DIMS)
        assert dims_text is not None
        dims = [d.strip() for d in dims_text.group().split("x") if d.strip()]
        element_match = self.match(_ELEMENT)
        if element_match is None:
            self.missing("the type of an element")
        if element_match.group(1):
            dims.append(element_match.group(1))
            self.note(f"the x in front of {element_match.group(2)} is missing")
        element = element_match.group(2)
        if element in ("xb16", "b16"):
            self.note(f"{element} is read as bf16")
        element = _ELEMENTS.get(element, element)
        layout, order, swapped, shared, scattered, named = self._type_attributes(kind)
        return Type(
            kind,  # type: ignore[arg-type]
            tuple(int(d) if d.isdigit() else d for d in dims),
            element,
            layout,
            order,
            swapped,
            shared,
            scattered,
            named,
        )

    def _type_attributes(self, kind: str) -> tuple[WgMap | None, Order, bool, bool, bool, str]:
        layout, order, named = None, ROW_MAJOR, ""
        swapped = shared = scattered = False
        while True:
            comma = self.accept(",")
            affine, strided = self.match(_AFFINE), None
            if affine is None:
                strided = self.match(_STRIDED)
            if affine is not None:
                before, after = ([d.strip() for d in affine.group(i).split(",")][-2:] for i in (1, 2))
                swapped = before == after[::-1]
            elif strided is not None:
                swapped = self._strided(strided.group(1))
            elif self.accept("slm"):
                shared = True
            elif self.accept("order"):
                self.expect("=")
                a, b = self.integers()
                order = (a, b)
            elif self.accept("#scatter"):
                scattered = True
            elif self.text.startswith("#amdgpu", self.position):
                self.reference("an attribute")
            elif self.peek(_REFERENCE):
                if not comma:
                    self.note(f"the comma in a {kind} is missing")
                match = self.peek(_REFERENCE)
                assert match is not None
                named = match.group()
                layout, order = self._tile_attribute(self.reference("an attribute"), order)
            elif self.accept("]"):
                self.note("an extra bracket ] is ignored")
            else:
                break
        if not self.accept(">"):
            self.note(f"the bracket > of a {kind} is missing")
        return layout, order, swapped, shared, scattered, named

    def _tile_attribute(self, attribute: object, order: Order) -> tuple[WgMap | None, Order]:
        if not isinstance(attribute, WgMap):
            return None, order
        if (attribute.sg_layout, attribute.sg_data) == ((1, 1), (1, 1)):  # the attribute gives an order but no map
            return None, attribute.order
        return WgMap(attribute.sg_layout, attribute.sg_data), attribute.order if attribute.order != ROW_MAJOR else order

    def _strided(self, text: str) -> bool:
        first, *_ = (t.strip() for t in text.split(","))
        if first == "K":
            self.note("strides [K, 1] are labelled col-major, so they are read as [1, K]")
            return True
        return first == "1"
