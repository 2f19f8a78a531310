"""Parse listings in the syntax of the documents. Inexact spellings are accepted and reported as notes."""

from __future__ import annotations

import re

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.text.listing import (
    Attribute,
    Combined,
    Expression,
    Layout,
    ListedArray,
    Listing,
    Statement,
    Type,
)
from search_spaces.programs.text.tokens import Tokens

_XETILE = (
    "init_tile", "load_tile", "store_tile", "prefetch_tile", "update_tile_offset", "tile_mma", "atomic_rmw",
    "transpose", "reduction", "broadcast", "convert_layout", "load_gather", "store_scatter", "state", "get", "set",
    "load_scalar", "uniform", "combine", "yield",
)  # fmt: skip
_OTHER_NAMES = {
    "update_nd_offset": "update_tile_offset",
    "conv_layout": "convert_layout",
}
_WHOLE = (
    "memref.subview", "memref.alloc", "memref.cast", "vector.transfer_read", "vector.contract", "vector.transpose",
    "vector.shape_cast",
    "gpu.barrier", "linalg.index", "iree_vector_ext.to_layout", "iree_vector_ext.to_simd", "iree_vector_ext.to_simt",
)  # fmt: skip
_DIALECTS = ("arith.", "math.", "tile.")
_BARE = ("add", "mod")

_RESULTS = re.compile(r"((?:%\s?\w+'*|[A-Z]\w*)(?:\s*,\s*%\w+'*)*)\s*=(?![=>])")
_ALIAS = re.compile(r"(#[A-Za-z_]\w*)\s*=\s*(?=#)")
_LOST_STATEMENT = re.compile(r"//([^\n]*?)(?=store_tile\b)")
_PROSE = re.compile(r"(?:Pseudo|Pseduo)[^\n]*|(?:C|Reduce)\[[^\n]*=[^\n]*")
_ARRAY = re.compile(r"([A-Z]+)\s*((?:\[\s*[A-Z]\w*(?:\s*,\s*[A-Z]\w*)*\s*\])+)")
_HEAD = re.compile(r"(BF16|F16|F32)\b")
_PERIODIC = re.compile(r"\(\s*(%\w+)\s*%\s*(\d+)\s*==\s*(\d+)\s*\)")
_BASE = re.compile(r"&?\s*([A-Z]\w*)\b(?!\s*=[^=])")
_SHARED_LOOP = re.compile(r"\{(?=\s*parts\s*=)")
_LOCALITY = re.compile(r"locality\s*<(\d)>")


def read(text: str, file: str = "text") -> Listing:
    """Parse a listing. Raises ProgramError with a one-line message that names the position of a syntax error."""
    text = text.replace("\u2019", "'")
    reader = _ListingReader(text, file)
    for lost in _LOST_STATEMENT.finditer(text):
        reader.text = reader.text[: lost.start()] + " " * (lost.end() - lost.start()) + reader.text[lost.end() :]
        line = text.count("\n", 0, lost.start()) + 1
        reader.notes.append(f"{file}:{line}: a store in a comment is read as code")
    return reader.listing()


class _ListingReader(Tokens):
    def listing(self) -> Listing:
        """Parse the whole text."""
        name, parameters, chosen = "", list[ListedArray](), dict[str, int]()
        statements: list[Statement] = []
        while not self.at_end():
            if self.match(_PROSE) or self.accept(";"):
                continue
            alias = self.match(_ALIAS)
            if alias is not None:
                self._define(alias.group(1))
            elif self.accept("func.func"):
                name = self._function(parameters, chosen)
                statements += self._block(braces=True)
            elif self.peek(_HEAD):
                parameters += self._pseudo_arrays()
                name = name or "matmul"
            else:
                statements += self._statements()
                if not self.at_end() and self._starts() is None and not self.peek(_ALIAS):
                    self.missing("a statement")
        return Listing(
            name, tuple(parameters), tuple(statements), tuple(chosen.items()), tuple(self.aliases.items()),
            tuple(self.notes), self.file,
        )  # fmt: skip

    def _define(self, alias: str) -> None:
        if alias in self.aliases:
            self.note(f"{alias} is redefined: the new definition is used from here on")
        start = self.position
        word = re.compile(r"#[A-Za-z_][\w.]*").match(self.text, start)
        assert word is not None
        self._position = word.end()
        self.aliases[alias] = self.attribute(word.group())

    # Functions and arrays

    def _function(self, parameters: list[ListedArray], chosen: dict[str, int]) -> str:
        self.expect("@")
        name = self.take_word()
        self.expect("(")
        while not self.accept(")"):
            own = self.name()
            if own is None:
                self.missing("an argument")
            self.constants_shadowed.add(own)
            self.expect(":")
            type_ = self.type()
            role, sizes = "", tuple[str, ...]()
            if self.accept("{"):
                self.expect("role")
                self.expect("=")
                role = self.take_word()
                self.expect(",")
                self.expect("sizes")
                self.expect("=")
                read = self.value()
                sizes = tuple(map(str, read)) if isinstance(read, tuple) else ()
                self.expect("}")
            parameters.append(ListedArray(own, type_, role, sizes))
            if not self.accept(",") and not self.text.startswith(")", self.position):
                self.note("a comma between two arguments is missing")
        if self.accept("attributes"):
            self.expect("{")
            while not self.accept("}"):
                key = self.take_word()
                self.expect("=")
                number = self.number()
                if not isinstance(number, int):
                    self.missing("a whole number")
                chosen[key] = number
                self.accept(",")
        return name

    def _pseudo_arrays(self) -> list[ListedArray]:
        """Read a declaration such as ``BF16 A[M][K], BT[N, K];``."""
        head = self.match(_HEAD)
        assert head is not None
        arrays = []
        while True:
            array = self.match(_ARRAY)
            if array is None:
                self.missing("an array, such as A[M][K]")
            sizes = tuple(re.findall(r"[A-Z]\w*", array.group(2)))
            type_ = Type("memref", sizes, head.group(1).lower())
            arrays.append(ListedArray(f"%{array.group(1)}", type_))
            if not self.accept(","):
                self.expect(";")
                return arrays

    # Statements

    def _block(self, braces: bool) -> list[Statement]:
        """Read the statements of a body.

        The body of a pseudo-code loop, or of a truncated text, ends at the end of the text.
        """
        if braces:
            self.expect("{")
        statements = self._statements()
        if braces and not self.accept("}"):
            if not self.at_end():
                self.missing("a statement or '}'")
            self.note("a closing brace is missing")
        return statements

    def _statements(self) -> list[Statement]:
        statements: list[Statement] = []
        while not self.at_end() and not self.text.startswith("}", self.position):
            if self.accept(";"):
                continue
            line, starts = self.line, self._starts()
            if starts is None:
                break
            statements.append(self._statement(starts, line))
        return statements

    def _starts(self) -> tuple[str, ...] | None:
        """Return the result names of the next statement without consuming them; None if there is no statement."""
        match = self.peek(_RESULTS)
        if match is not None and not self.peek(_HEAD):
            return tuple(re.sub(r"\s", "", n) for n in match.group(1).split(","))
        return () if self._op(self.word()) else None

    def _op(self, word: str) -> str:
        """Return the canonical name of an operation; "" for other words."""
        short = word.removeprefix("xetile.")
        short = _OTHER_NAMES.get(short, short)
        if short in _XETILE:
            return f"xetile.{short}"
        lower = word.lower()
        if lower in ("scf.for", "scf.if", "scf.forall"):
            return lower
        if word == "For" or word in _BARE or word in _WHOLE or word.startswith(_DIALECTS):
            return word
        return ""

    def _statement(self, results: tuple[str, ...], line: int) -> Statement:
        if len(results) > 0:
            self.match(_RESULTS)
            results = tuple(n if n.startswith("%") else f"%{n}" for n in results)
            self.constants_shadowed |= set(results)
            if not self._op(self.word()):
                return self._assigned(results, line)
        word = self.take_word()
        op = self._op(word)
        match op:
            case "scf.for":
                return self._for(line)
            case "scf.forall":
                return self._forall(line)
            case "scf.if":
                return self._if(line)
            case "For":
                return self._pseudo_for(line)
            case "xetile.combine":
                return Statement(op, results, body=tuple(self._block(True)), line=line)
        if word.startswith(("update_nd", "xetile.update_nd", "conv_layout", "xetile.conv_layout")):
            self.note(f"{word} is read as {op}")
        return self._operation(op, results, line)

    def _assigned(self, results: tuple[str, ...], line: int) -> Statement:
        value = self.names() or [self.number()]  # type: ignore[list-item]
        if value[0] is None:
            self.missing("an operation, a name or a number")
        return Statement("assign", results, tuple(value), line=line)

    def _for(self, line: int) -> Statement:
        name = self.name()
        if name is None:
            self.missing("the variable of the loop")
        self.constants_shadowed.add(name)
        self.expect("=")
        first = self.expression()
        self.expect("to")
        stop = self.expression()
        self.expect("step")
        step = self.expression()
        attributes: dict[str, Attribute] = {}
        if self.match(_SHARED_LOOP):
            self._braces([], [], attributes)
        return Statement(
            "scf.for", (name,), (first, stop, step), attributes=tuple(sorted(attributes.items())),
            body=tuple(self._block(True)), line=line,
        )  # fmt: skip

    def _forall(self, line: int) -> Statement:
        self.expect("(")
        names = tuple(str(n) for n in self.expressions(")"))
        parts = []
        for word in ("=", "to", "step"):
            self.expect(word)
            self.expect("(")
            parts.append(self.expressions(")"))
        return Statement("scf.forall", names, index=tuple(parts), body=tuple(self._block(True)), line=line)

    def _if(self, line: int) -> Statement:
        periodic = self.match(_PERIODIC)
        if periodic is not None:
            name, every, rest = periodic.groups()
            condition: Expression = Combined("==", (Combined("mod", (name, int(every))), int(rest)))
            return Statement("scf.if", (), (condition,), body=tuple(self._block(True)), line=line)
        self.expect("(")
        condition = self.expression()
        self.expect(")")
        return Statement("scf.if", (), (condition,), body=tuple(self._block(True)), line=line)

    def _pseudo_for(self, line: int) -> Statement:
        """Read ``For i = 0, M-1, M_tile Do``.

        The end is read as M, although the document gives M - 1.
        """
        name = f"%{self.take_word()}"
        self.expect("=")
        first = self.expression()
        self.expect(",")
        size = self.take_word()
        self.expect("-1")
        self.expect(",")
        step = self.take_word()
        self.expect("Do")
        self.note(f"{name} is read as a loop from {first} to {size} in steps of {step}, the extent of the tiles")
        return Statement("scf.for", (name,), (first, f"%{size}", f"%{step}"), body=tuple(self._block(False)), line=line)

    def _operation(self, op: str, results: tuple[str, ...], line: int) -> Statement:
        operands: list[Expression] = []
        index: list[tuple[Expression, ...]] = []
        layouts: list[Layout] = []
        named: list[str] = []
        attributes: dict[str, Attribute] = {}
        takes: list[Type] = []
        gives: list[Type] = []
        kind = self.kind()
        if op in ("xetile.init_tile",) and self.accept(":"):
            self.note(f"{op} has a colon after the name, and no result")
        while not self.at_end():
            if self.accept("{"):
                self._braces(layouts, named, attributes)
            elif self.accept("["):
                index.append(self.expressions("]"))
            elif (locality := self.match(_LOCALITY)) is not None:
                attributes["locality"] = int(locality.group(1))
            elif self.accept("to layout"):
                self.expect("(")
                layout = self.reference("a layout")
                if isinstance(layout, WgMap | NestedLayout):
                    layouts.append(layout)
                self.expect(")")
            elif self.text.startswith("<", self.position) and not kind:
                kind = self.kind() or self.missing("a kind, such as <add>")
            elif self.accept(":") or self.at_type():
                self._types(takes, gives)
                if op == "memref.cast" or not self.text.startswith("{", self.position):
                    break
            elif self.peek(_RESULTS):
                break
            elif (names := self.names()) is not None:
                operands += names
            elif (number := self.number()) is not None:
                operands.append(number)
            elif self.accept(",") or self._bare(operands, op):
                continue
            else:
                break
        if attributes.pop("order", None):
            self.note("an order that follows a type is read as part of the tile's type")
        return Statement(
            op, results, tuple(operands), tuple(index), kind, tuple(layouts), tuple(sorted(attributes.items())),
            tuple(takes), tuple(gives), None, line, tuple(named),
        )  # fmt: skip

    def _bare(self, operands: list[Expression], op: str) -> bool:
        """Consume a name without percent sign (an array in pseudo-code, or a typo); return True if there is one."""
        base = self.match(_BASE)
        if base is not None:
            operands.append(f"%{base.group(1)}")
            return True
        word = self.word()
        if op == "xetile.update_tile_offset" and word and not self._op(word):
            self.note(f"{word} is read as %{word}")
            operands.append(f"%{self.take_word()}")
            return True
        if op.startswith("arith.") and word and not self._op(word) and word not in ("scf", "func"):
            operands.append(self.take_word())
            return True
        return False

    def _braces(self, layouts: list[Layout], named: list[str], attributes: dict[str, Attribute]) -> None:
        while not self.accept("}"):
            if self.text.startswith("#", self.position):
                name = re.compile(r"#[\w.]*").match(self.text, self.position)
                layout = self.reference("a map")
                if isinstance(layout, WgMap | NestedLayout):
                    layouts.append(layout)
                    named.append(name.group() if name else "")
            else:
                key = self.take_word().removeprefix("$")
                attributes[key] = self.value() if self.accept("=") else True
            self.accept(",")

    def _types(self, takes: list[Type], gives: list[Type]) -> None:
        """Read the types of operands, then an arrow (``to``, ``into``, ``->`` or ``=>``) and the types of results."""
        into, depth = takes, 0
        while True:
            if any(self.accept(arrow) for arrow in ("->", "=>", "into", "to")):
                into = gives
            elif self.accept("("):
                depth += 1
            elif depth and self.accept(")"):
                depth -= 1
            elif self.at_type():
                into.append(self.type())
            elif self.accept(","):
                continue
            else:
                return
