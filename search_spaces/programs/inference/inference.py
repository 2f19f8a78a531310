"""The result of inference: each value's symbolic distribution, the anchors, and the loads that use shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape, line_dimension

Derived = Literal["drop", "group", "expand", "swap", "reshape"]
Advance = Literal["major", "minor", "placed", "gathered", ""]
Kind = Literal["result", "left", "right", "blocked", "user_map"] | Derived


@dataclass(frozen=True)
class Spread:
    """The distribution of a tile of shape ``shape``, as an expression of the schedule's parameters.

    These kinds are anchors:

    - ``result``, ``left``, ``right``: Distribution of the result, left operand or right operand of product group
      ``number``.
    - ``blocked``: Distribution in blocks, whose contiguous lines run along dimension ``number``.
    - ``user_map``: Map that the user wrote for value ``number``.

    The other kinds are derived from the distribution ``of`` by changing its tile:

    - ``drop``: The extent of dimension ``number`` becomes 1.
    - ``group``: The extent of dimension ``number`` is divided by ``size``.
    - ``expand``: The extent of dimension ``number`` is multiplied by ``size``.
    - ``swap``: The tile is transposed.
    - ``reshape``: The tile is reshaped in row-major order.
    """

    kind: Kind
    shape: Shape
    number: int = 0
    of: Spread | None = None
    size: int = 0

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.shape, self.number, self.of, self.size))

    def __hash__(self) -> int:  # cached, because distributions are hashed for every lookup in the counts of a schedule
        return self._hash

    def drop(self, dimension: int) -> Spread:
        """Return the distribution of a reduction's result, whose extent along ``dimension`` is 1."""
        if self.shape[dimension] == 1:
            return self
        shape = (1, self.shape[1]) if dimension == 0 else (self.shape[0], 1)
        return Spread("drop", shape, dimension, self)

    def group(self, dimension: int, size: int) -> Spread:
        """Return the distribution of one value per ``size`` elements along ``dimension``."""
        if size == 1:
            return self
        if self.kind == "expand" and self.of is not None and (self.number, self.size) == (dimension, size):
            return self.of
        if size == self.shape[dimension]:
            return self.drop(dimension)
        rows, columns = self.shape
        shape = (rows // size, columns) if dimension == 0 else (rows, columns // size)
        return Spread("group", shape, dimension, self, size)

    def expand(self, dimension: int, size: int) -> Spread:
        """Return the distribution that repeats each element ``size`` times along ``dimension``.

        If this distribution is the result of a matching ``group``, return the distribution before ``group``. Otherwise
        the copies of an element lie in registers of one thread.
        """
        if self.kind == "group" and self.of is not None and (self.number, self.size) == (dimension, size):
            return self.of
        rows, columns = self.shape
        shape = (rows * size, columns) if dimension == 0 else (rows, columns * size)
        return Spread("expand", shape, dimension, self, size)

    def swap(self) -> Spread:
        """Return the distribution of the transposed tile."""
        if self.kind == "swap" and self.of is not None:
            return self.of
        return Spread("swap", (self.shape[1], self.shape[0]), 0, self)

    def reshape(self, shape: Shape) -> Spread:
        """Return the distribution of the tile reshaped to ``shape`` (row-major)."""
        if shape == self.shape:
            return self
        inner = self.of if self.kind == "reshape" and self.of is not None else self
        return inner if inner.shape == shape else Spread("reshape", shape, 0, inner)

    @property
    def base(self) -> Spread:
        """The anchor's distribution from which this distribution is derived, in one or more steps."""
        return self if self.of is None else self.of.base

    @property
    def operand(self) -> bool:
        """True if this is the distribution of a product's operand in registers."""
        return self.kind in ("left", "right")

    def __str__(self) -> str:
        match self.kind:
            case "drop":
                return f"drop({self.of}, {self.number})"
            case "group" | "expand":
                return f"{self.kind}({self.of}, {self.number}, {self.size})"
            case "swap" | "reshape":
                return f"{self.kind}({self.of})"
            case "blocked":
                return f"blocked({self.shape[0]}x{self.shape[1]}, {self.number})"
        return f"{self.kind}_{self.number}"


def scale_spreads(operation: ir.Mma, number: int) -> list[tuple[ir.Value, Spread]]:
    """Return the scales of a block-scaled product with their distributions.

    A thread that holds elements of a row of ``a`` or a column of ``b`` holds all scales of this row or column.
    """
    if operation.scales is None:
        return []
    of_a, of_b = operation.scales
    left, right = Spread("left", operation.a.shape, number), Spread("right", operation.b.shape, number)
    blocks = of_a.shape[1]
    lines = left.drop(1), right.drop(0)
    return [
        (scale, own if blocks == 1 else own.expand(along, blocks))
        for scale, own, along in zip((of_a, of_b), lines, (1, 0), strict=True)
    ]


def of_index(window: ir.Window, spread: Spread) -> Spread:
    """Return the distribution of the indices ``window.index``, given the distribution of the window's elements."""
    if len(window.indexed) == 2:
        return spread
    along = line_dimension(window)
    return spread.group(along, window.shape[along])


@dataclass(frozen=True)
class Product:
    """A group of products that have the same shape and are divided among subgroups in the same way.

    Names of the group's parameters end in ``suffix``.
    """

    number: int
    shape: Shape
    user_map: ir.UserMap | None
    suffix: str
    source: ir.Source  # source position of the first product


@dataclass(frozen=True)
class Anchor:
    """Shape of tiles with a blocked distribution, in which a thread holds consecutive elements of a line.

    The lines are contiguous, and run along dimension ``along``.
    """

    shape: Shape
    along: int


@dataclass(frozen=True)
class Staged:
    """An operand that goes through shared memory.

    Attributes:
        row_major: True if rows of the operand are contiguous in memory.
        loop: Id of the loop that loads a tile per iteration into a ring of buffers; None for a tile that is loaded
            once.
        advance: How the tile moves between iterations. "minor": by one tile along contiguous memory. "major": by one
            tile across contiguous memory. "": not at all. "placed": each iteration computes the position of the tile
            that it loads. "gathered": each iteration computes an array row for every row of the tile.
        anywhere: True if tiles may reach beyond the array even if the array's extent is a multiple of the tile's
            extent.
        converted: True if the tile has another type than the product's operands. Threads then read elements in the
            stored type and convert them in registers.
    """

    name: str
    load: ir.LoadTile
    side: Literal["a", "b"]
    product: int
    shape: Shape
    row_major: bool
    loop: int | None
    advance: Advance
    start: tuple[Index, Index]  # position of the window in iteration 0 of the loop
    alignment: int
    anywhere: bool
    converted: bool = False


@dataclass(eq=False)
class Inference:
    """The results of inference for a program.

    Attributes:
        classes: Class of each product, in program order. Products of one class are divided among subgroups in the same
            way.
        natural: The distribution in which each value is computed.
        wanted: The distributions in which each value is used.
        product_of: Index of each product's group, by the id of the product's result.
        sources: Distribution of each reduction's operand, by the id of the reduction's result.
        sums: Reductions whose partial results may be combined after the loop. Keys are the ids of the states that
            accumulate them.
    """

    trace: ir.Trace
    classes: tuple[int, ...] = ()
    natural: dict[int, Spread] = field(default_factory=dict)
    light: dict[int, bool] = field(default_factory=dict)
    wanted: dict[int, list[Spread]] = field(default_factory=dict)
    states: dict[int, Spread] = field(default_factory=dict)
    fixed: frozenset[int] = frozenset()  # states whose distribution is not changed by later passes
    products: list[Product] = field(default_factory=list)
    product_of: dict[int, int] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    sources: dict[int, Spread] = field(default_factory=dict)
    stored: dict[int, Spread] = field(default_factory=dict)  # distribution of each stored value, by index in ``stores``
    stores: list[ir.StoreTile | ir.AtomicRmw] = field(default_factory=list)
    stored_in: list[tuple[int, ...]] = field(default_factory=list)  # loops around each operation of ``stores``
    user_maps: dict[int, ir.UserMap] = field(default_factory=dict)
    staged: dict[tuple[int, Spread], Staged] = field(default_factory=dict)
    sums: dict[int, ir.ReduceTile] = field(default_factory=dict)
    definitions: dict[int, ir.Computing] = field(default_factory=dict)
    loops: dict[int, ir.Loop] = field(default_factory=dict)
    scalars: dict[int, ir.LoadScalar] = field(default_factory=dict)
    uniform: dict[int, Spread] = field(default_factory=dict)  # distribution of each tile that is converted to an index
    scalars_in: dict[int, tuple[int, ...]] = field(default_factory=dict)  # loops around the load of each scalar
    # loops around the operation that computes each value
    inside: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def heavy(self) -> list[int]:
        """Ids of the values that need registers in addition to the registers of states."""
        of_states = {o.value.id for o, _ in self.trace.walk() if isinstance(o, ir.Set)}
        of_states |= {o.c.id for o in self.definitions.values() if isinstance(o, ir.Mma) and o.c is not None}
        cheap = (
            ir.Read
            | ir.LoadTile
            | ir.Fill
            | ir.PassedScalar
            | ir.Coordinates
            | ir.Broadcast
            | ir.TransposeTile
            | ir.Reshape
        )
        return [id_ for id_, o in self.definitions.items() if not isinstance(o, cheap) and id_ not in of_states]

    @cached_property
    def depths(self) -> set[int]:
        """The extents along k that the products have."""
        return {o.a.shape[1] for o in self.definitions.values() if isinstance(o, ir.Mma)}

    @cached_property
    def operand_counts(self) -> list[tuple[int, int]]:
        """Numbers of distinct left and right operands of each group of products."""
        of_group = [
            [o for o in self.definitions.values() if isinstance(o, ir.Mma) and self.product_of[o.result.id] == p.number]
            for p in self.products
        ]
        return [(len({o.a.id for o in group}), len({o.b.id for o in group})) for group in of_group]

    @cached_property
    def exchangeable(self) -> list[Shape]:
        """Shapes of tiles that some schedule may redistribute through shared memory."""
        converted = {self.definitions[v.id].result.shape for v, _, _ in self.conversions}
        converted |= {o.result.shape for o in self.definitions.values() if isinstance(o, ir.Convert | ir.AtomicFetch)}
        converted |= {spread.shape for _, spread, _ in self.conversions}
        return sorted(converted | {s.value.shape for s in self.stores})

    def anchor(self, spread: Spread) -> None:
        """Record the anchor that ``spread`` is derived from."""
        base = spread.base
        anchor = Anchor(base.shape, base.number)
        if base.kind == "blocked" and anchor not in self.anchors:
            self.anchors.append(anchor)

    def computed_in(self, value: ir.Value) -> list[Spread]:
        """Return the distributions in which a value is computed; an empty list for an unused value.

        A heavy value is computed in one distribution, a light value in each distribution in which it is used.
        """
        wanted = self.wanted.get(value.id, [])
        if not wanted:
            return []
        return wanted if self.light[value.id] else [self.natural[value.id]]

    @cached_property
    def conversions(self) -> list[tuple[ir.Value, Spread, Spread]]:
        """Triples (value, old distribution, new distribution) of conversions and of ``PadTile``s, in program order."""
        conversions = list[tuple[ir.Value, Spread, Spread]]()
        for id_, operation in self.definitions.items():
            wanted = self.wanted.get(id_, [])
            if isinstance(operation, ir.PadTile) and operation.wide is None:
                conversions += [(operation.result, self.natural[operation.value.id], spread) for spread in wanted]
            elif not self.light[id_]:
                own = self.natural[id_]
                conversions += [(operation.result, own, spread) for spread in wanted if spread != own]
        return conversions
