"""What the inference of a program finds: the distribution of each value as an expression, anchors, and staged loads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape, line_dimension

Derived = Literal["drop", "group", "expand", "swap", "reshape"]
Advance = Literal["major", "minor", "placed", "gathered", ""]
Kind = Literal["result", "left", "right", "blocked", "given"] | Derived


@dataclass(frozen=True)
class Spread:
    """``result``, ``left`` and ``right`` of product ``number``; ``blocked`` of the anchor of this shape whose lines run
    along dimension ``number``; the ``given`` map of value ``number``; ``drop``, ``group`` and ``expand`` (of ``size``)
    of another along a dimension; its ``swap``; its elements in row-major order in another shape.

    ``shape`` is that of the tile that it distributes.
    """

    kind: Kind
    shape: Shape
    number: int = 0
    of: Spread | None = None
    size: int = 0

    @cached_property
    def _hash(self) -> int:
        return hash((self.kind, self.shape, self.number, self.of, self.size))

    def __hash__(self) -> int:  # it is a key of caches that every count reads
        return self._hash

    def drop(self, dimension: int) -> Spread:
        """Of a tile that is 1 along ``dimension``, which this one stretches."""
        if self.shape[dimension] == 1:
            return self
        shape = (1, self.shape[1]) if dimension == 0 else (self.shape[0], 1)
        return Spread("drop", shape, dimension, self)

    def group(self, dimension: int, size: int) -> Spread:
        """Of one value for every ``size`` along ``dimension``."""
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
        """Of ``size`` neighbours along ``dimension`` for each element: those that were grouped, where they were, or in
        registers of one thread.
        """
        if self.kind == "group" and self.of is not None and (self.number, self.size) == (dimension, size):
            return self.of
        rows, columns = self.shape
        shape = (rows * size, columns) if dimension == 0 else (rows, columns * size)
        return Spread("expand", shape, dimension, self, size)

    def swap(self) -> Spread:
        """Of the transposed tile."""
        if self.kind == "swap" and self.of is not None:
            return self.of
        return Spread("swap", (self.shape[1], self.shape[0]), 0, self)

    def reshape(self, shape: Shape) -> Spread:
        """Of the same elements in row-major order in another shape."""
        if shape == self.shape:
            return self
        inner = self.of if self.kind == "reshape" and self.of is not None else self
        return inner if inner.shape == shape else Spread("reshape", shape, 0, inner)

    @property
    def base(self) -> Spread:
        """What it is derived from, in however many steps."""
        return self if self.of is None else self.of.base

    @property
    def operand(self) -> bool:
        """Whether it is an operand of a product, as it lies in registers."""
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
    """Return the scales of a product's blocks and who holds them: who has a number of a line, all of the line's."""
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
    """Return the distribution of a window's places, where its elements have ``spread``."""
    if len(window.indexed) == 2:
        return spread
    along = line_dimension(window)
    return spread.group(along, window.shape[along])


@dataclass(frozen=True)
class Product:
    """What products of one shape share: the subgroups along rows and columns, whose parameters end in ``suffix``."""

    number: int
    shape: Shape
    given: ir.Given | None
    suffix: str


@dataclass(frozen=True)
class Anchor:
    """A tile in blocks along the lines of memory: ``along`` is the dimension of a line."""

    shape: Shape
    along: int


@dataclass(frozen=True)
class Staged:
    """An operand that goes through shared memory. ``turned``: transposed behind the load. ``row_major``: lines of
    memory are rows of the operand. ``loop``: of the ring, or None for a tile that is loaded once. ``advance``: along
    which way of memory the tiles of a loop follow each other; "placed" where each turn says anew where its tile begins,
    in its matrix or by the matrix; "gathered" where it says the line of memory of each of its rows. ``anywhere``: tiles
    may begin such that they leave an array that they would divide. ``converted``: factors follow from the tile, which
    has another type: threads read what they need of it as it is stored, and convert that in registers.
    """

    name: str
    load: ir.LoadTile
    side: Literal["a", "b"]
    product: int
    shape: Shape
    row_major: bool
    loop: int | None
    advance: Advance
    start: tuple[Index, Index]  # where the window begins in turn 0
    alignment: int
    anywhere: bool
    converted: bool = False


@dataclass(eq=False)
class Inference:
    """``classes``: of each product in the order of the program; those that share their subgroups have one number.
    ``natural``: the distribution that a value has by itself. ``wanted``: those in which it is wanted. ``products``:
    of each product, by its result's id. ``sources``: what each reduction reduces. ``partial``: reductions whose lanes
    are joined behind the loop, by the state that carries them.
    """

    trace: ir.Trace
    classes: tuple[int, ...] = ()
    natural: dict[int, Spread] = field(default_factory=dict)
    light: dict[int, bool] = field(default_factory=dict)
    wanted: dict[int, list[Spread]] = field(default_factory=dict)
    states: dict[int, Spread] = field(default_factory=dict)
    fixed: frozenset[int] = frozenset()  # states whose distribution no longer follows what they are set to
    products: list[Product] = field(default_factory=list)
    product_of: dict[int, int] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    sources: dict[int, Spread] = field(default_factory=dict)
    stored: dict[int, Spread] = field(default_factory=dict)  # by the place of the store in ``stores``
    stores: list[ir.StoreTile | ir.AtomicRmw] = field(default_factory=list)
    stored_in: list[tuple[int, ...]] = field(default_factory=list)  # the loops around each of ``stores``
    given: dict[int, ir.Given] = field(default_factory=dict)
    staged: dict[tuple[int, Spread], Staged] = field(default_factory=dict)
    sums: dict[int, ir.ReduceTile] = field(default_factory=dict)  # by state: what may stay partial in the loop
    made: dict[int, ir.Computing] = field(default_factory=dict)
    loops: dict[int, ir.Loop] = field(default_factory=dict)
    scalars: dict[int, ir.LoadScalar] = field(default_factory=dict)
    uniform: dict[int, Spread] = field(default_factory=dict)  # of the tile that becomes an index
    scalars_in: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the loops around each
    inside: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the loops around each value's operation

    @cached_property
    def heavy(self) -> list[int]:
        """Values that take registers of their own beside states."""
        of_states = {o.value.id for o, _ in self.trace.walk() if isinstance(o, ir.Set)}
        of_states |= {o.c.id for o in self.made.values() if isinstance(o, ir.Mma) and o.c is not None}
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
        return [id_ for id_, o in self.made.items() if not isinstance(o, cheap) and id_ not in of_states]

    @cached_property
    def moving(self) -> list[int]:
        """Reductions and conversions."""
        return [id_ for id_, o in self.made.items() if isinstance(o, ir.ReduceTile | ir.Scan | ir.Convert)]

    @cached_property
    def depths(self) -> set[int]:
        """The k of all products."""
        return {o.a.shape[1] for o in self.made.values() if isinstance(o, ir.Mma)}

    @cached_property
    def operand_counts(self) -> list[tuple[int, int]]:
        """Of each group of products, how many different left and right operands it has."""
        of_group = [
            [o for o in self.made.values() if isinstance(o, ir.Mma) and self.product_of[o.result.id] == p.number]
            for p in self.products
        ]
        return [(len({o.a.id for o in group}), len({o.b.id for o in group})) for group in of_group]

    @cached_property
    def exchangeable(self) -> list[Shape]:
        """Shapes of tiles that some schedule may bring to other threads through shared memory."""
        converted = {self.made[v.id].result.shape for v, _, _ in self.conversions}
        converted |= {o.result.shape for o in self.made.values() if isinstance(o, ir.Convert | ir.AtomicFetch)}
        converted |= {spread.shape for _, spread, _ in self.conversions}
        return sorted(converted | {s.value.shape for s in self.stores})

    def anchor(self, spread: Spread) -> None:
        """Keep the anchor that ``spread`` is derived from."""
        base = spread.base
        anchor = Anchor(base.shape, base.number)
        if base.kind == "blocked" and anchor not in self.anchors:
            self.anchors.append(anchor)

    def computed_in(self, value: ir.Value) -> list[Spread]:
        """Return the distributions in which a value is computed; the others are conversions from its own."""
        wanted = self.wanted.get(value.id, [])
        if not wanted:
            return []
        return wanted if self.light[value.id] else [self.natural[value.id]]

    @cached_property
    def conversions(self) -> list[tuple[ir.Value, Spread, Spread]]:
        """(value, from, to) of every conversion, in the order of the program."""
        return [
            (operation.result, self.natural[id_], spread)
            for id_, operation in self.made.items()
            if not self.light[id_]
            for spread in self.wanted.get(id_, [])
            if spread != self.natural[id_]
        ]
