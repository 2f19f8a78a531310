"""Listings: statements of a tile program with operands, attributes and types, and their printed form.

``str`` returns the canonical spelling of a statement. Parsing this spelling gives an equal statement, except for line
numbers and notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from search_spaces.layouts.lowering_config import LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import ROW_MAJOR, WgMap

Sign = Literal["+", "*", "floordiv", "mod", "min", "max", "=="]
Order = tuple[int, int]
Layout = WgMap | NestedLayout
Attribute = bool | int | float | str | tuple[int, ...] | tuple[str, ...] | LoweringConfig


@dataclass(frozen=True)
class Combined:
    """An expression of positions, such as a sum, product or quotient."""

    sign: Sign
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        texts = [str(a) for a in self.args]
        if self.sign in ("min", "max"):
            return f"{self.sign}({', '.join(texts)})"
        inner = [f"({t})" if isinstance(a, Combined) and a.sign not in ("min", "max") else t
                 for a, t in zip(self.args, texts, strict=True)]  # fmt: skip
        return f" {self.sign} ".join(inner)


Expression = str | int | float | Combined


def number_text(number: Expression) -> str:
    """Return the text of a number. The text of a float has a point or an exponent, or is a name such as "inf"."""
    return repr(number) if isinstance(number, float) and math.isfinite(number) else str(number)


@dataclass(frozen=True)
class Type:
    """The type of a value.

    Attributes:
        dims: Extents: numbers, names of sizes, or "?".
        layout: Distribution of a tile.
        order: Memory order of a tile.
        swapped: True if a memref is stored as the transposed matrix.
        named: Name of the layout attribute in the text.
    """

    kind: Literal["tile", "vector", "memref", "tensor", "scalar"]
    dims: tuple[int | str, ...] = ()
    element: str = ""
    layout: WgMap | None = None
    order: Order = ROW_MAJOR
    swapped: bool = False
    shared: bool = False
    scattered: bool = False
    named: str = field(default="", compare=False)

    def __str__(self) -> str:
        if self.kind == "scalar":
            return self.element
        inside = "x".join([*map(str, self.dims), self.element])
        if self.swapped:
            inside += ", affine_map = <(d0, d1) -> (d1, d0)>"
        if self.shared:
            inside += ", slm"
        if self.scattered:
            inside += ", #scatter"
        fields = [f"wg = {self.layout}"] if self.layout is not None else []
        fields += [f"order = {list(self.order)}"] if self.order != ROW_MAJOR else []
        if fields:
            inside += f", #xetile.tile_attr<{', '.join(fields)}>"
        return f"{'!xetile.tile' if self.kind == 'tile' else self.kind}<{inside}>"


@dataclass(frozen=True)
class Statement:
    """``%results = op <kind> operands[index] {layouts} {attributes} : takes -> gives { body }``."""

    op: str
    results: tuple[str, ...] = ()
    operands: tuple[Expression, ...] = ()
    index: tuple[tuple[Expression, ...], ...] = ()
    kind: str = ""
    layouts: tuple[Layout, ...] = ()
    attributes: tuple[tuple[str, Attribute], ...] = ()
    takes: tuple[Type, ...] = ()
    gives: tuple[Type, ...] = ()
    body: tuple[Statement, ...] | None = None
    line: int = field(default=0, compare=False)
    named: tuple[str, ...] = field(default=(), compare=False)  # names of the statement's layout attributes in the text

    def attribute(self, name: str, default: Attribute = False) -> Attribute:
        """Return the value of an attribute, or ``default`` if the statement does not have the attribute."""
        return dict(self.attributes).get(name, default)

    def lines(self, indent: str = "") -> Iterator[str]:
        """Yield the lines of the statement in canonical spelling."""
        own = {"scf.for": self._for, "scf.forall": self._forall, "scf.if": self._if}
        text = own.get(self.op, self._plain)()
        if self.body is None:
            yield indent + text
            return
        yield f"{indent}{text} {{"
        for statement in self.body:
            yield from statement.lines(indent + "  ")
        yield f"{indent}}}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _for(self) -> str:
        first, stop, step = self.operands
        return f"scf.for {self.results[0]} = {first} to {stop} step {step}{self._attributes()}"

    def _forall(self) -> str:
        first, stop, step = (f"({', '.join(map(str, of))})" for of in self.index)
        return f"scf.forall ({', '.join(self.results)}) = {first} to {stop} step {step}"

    def _if(self) -> str:
        return f"scf.if ({self.operands[0]})"

    def _plain(self) -> str:
        if self.op == "assign":
            return f"{self.results[0]} = {number_text(self.operands[0])}"
        to_layout = self.op == "iree_vector_ext.to_layout"
        text = f"{', '.join(self.results)} = {self.op}" if self.results else self.op
        if self.kind:
            text += f" <{self.kind}>"
        if self.operands:
            text += " " + ", ".join(number_text(o) for o in self.operands)
        for positions in self.index:
            text += f"[{', '.join(map(str, positions))}]"
        if to_layout:
            text += f" to layout({', '.join(map(_layout_text, self.layouts))})"
        elif self.layouts:
            text += f" {{{' '.join(map(_layout_text, self.layouts))}}}"
        text += self._attributes()
        if self.takes:
            text += f" : {', '.join(map(str, self.takes))}"
        if self.gives:
            text += f" -> {', '.join(map(str, self.gives))}"
        return text

    def _attributes(self) -> str:
        listed = [n if v is True else f"{n} = {_attribute_text(v)}" for n, v in self.attributes]
        return f" {{{', '.join(listed)}}}" if listed else ""


def _layout_text(layout: Layout) -> str:
    return layout.dialect_text() if isinstance(layout, NestedLayout) else str(layout)


def _attribute_text(value: Attribute) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f'"{value}"' if isinstance(value, str) else number_text(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class ListedArray:
    """An array parameter of a function. ``sizes`` are names of the extents, if the text has names."""

    name: str
    type: Type
    role: str = ""
    sizes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.role:
            return f"{self.name}: {self.type}"
        return f"{self.name}: {self.type} {{role = {self.role}, sizes = [{', '.join(self.sizes)}]}}"


@dataclass(frozen=True)
class Listing:
    """A function, or a sequence of statements if ``name`` is empty.

    Attributes:
        chosen: Values of ``p.choose`` in a printed program.
        layouts: Named attributes of the text.
        notes: How ambiguous text was interpreted, with positions.
    """

    name: str
    parameters: tuple[ListedArray, ...]
    statements: tuple[Statement, ...]
    chosen: tuple[tuple[str, int], ...] = ()
    layouts: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    file: str = field(default="text", compare=False)

    def __str__(self) -> str:
        if not self.name:
            return "".join(f"{line}\n" for s in self.statements for line in s.lines())
        chosen = "".join(f"{', ' if i else ''}{n} = {v}" for i, (n, v) in enumerate(self.chosen))
        head = ",\n    ".join(map(str, self.parameters))
        lines = [f"func.func @{self.name}({head})" + (f" attributes {{{chosen}}}" if chosen else "") + " {"]
        lines += [line for s in self.statements for line in s.lines("  ")]
        return "\n".join([*lines, "}"]) + "\n"

    def walk(self) -> Iterator[Statement]:
        """Yield every statement, followed by the statements of its body."""
        waiting = list(self.statements)[::-1]
        while waiting:
            statement = waiting.pop()
            yield statement
            waiting += list(statement.body or ())[::-1]
