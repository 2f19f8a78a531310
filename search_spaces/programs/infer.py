"""Which distribution every value of a program has, as an expression without numbers; the same for all schedules.

Anchors are the results and operands of products, maps that the user wrote, and memory-like blocks where a value has
nothing else to follow. Every other value follows an operand. Values that cost little (loads, constants, index vectors,
and functions of those alone) are *light*: they are computed anew in each distribution in which they are wanted. Where a
heavy value is wanted in another distribution than its own stands a conversion. So inference cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import gcd
from typing import Literal

from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs import ir
from search_spaces.programs.index import Index
from search_spaces.programs.ir import Shape
from search_spaces.programs.places import resolve

Derived = Literal["drop", "group", "expand", "swap"]
Kind = Literal["result", "left", "right", "blocked", "given"] | Derived


@dataclass(frozen=True)
class Spread:
    """``result``, ``left`` and ``right`` of product ``number``; ``blocked`` of anchor ``number``; the ``given`` map of
    value ``number``; ``drop``, ``group`` and ``expand`` (of ``size``) of another along a dimension; its ``swap``.

    ``shape`` is that of the tile that it distributes.
    """

    kind: Kind
    shape: Shape
    number: int = 0
    of: Spread | None = None
    size: int = 0

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
        """Of ``size`` neighbours along ``dimension`` for each element, in registers of one thread."""
        rows, columns = self.shape
        shape = (rows * size, columns) if dimension == 0 else (rows, columns * size)
        return Spread("expand", shape, dimension, self, size)

    def swap(self) -> Spread:
        """Of the transposed tile."""
        if self.kind == "swap" and self.of is not None:
            return self.of
        return Spread("swap", (self.shape[1], self.shape[0]), 0, self)

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
            case "swap":
                return f"swap({self.of})"
        return f"{self.kind}_{self.number}"


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

    number: int
    shape: Shape
    along: int
    source: ir.Source
    reduced: bool  # along the line


@dataclass(frozen=True)
class Staged:
    """An operand that goes through shared memory. ``turned``: transposed behind the load. ``row_major``: lines of
    memory are rows of the operand. ``loop``: of the ring, or None for a tile that is loaded once. ``fragments``:
    products take the fragments from shared memory step by step; else they are all read at once."""

    name: str
    load: ir.Load
    side: Literal["a", "b"]
    product: int
    shape: Shape
    row_major: bool
    loop: int | None
    advance: Literal["major", "minor", ""]
    start: tuple[Index, Index]  # where the window begins in turn 0
    alignment: int


@dataclass(eq=False)
class Inference:
    """``classes``: of each product in the order of the program; those that share their subgroups have one number.
    ``natural``: the distribution that a value has by itself. ``wanted``: those in which it is wanted. ``products``:
    of each product, by its result's id. ``sources``: what each reduction reduces. ``partial``: reductions whose lanes
    are joined behind the loop, by the state that carries them."""

    trace: ir.Trace
    classes: tuple[int, ...] = ()
    natural: dict[int, Spread] = field(default_factory=dict)
    light: dict[int, bool] = field(default_factory=dict)
    wanted: dict[int, list[Spread]] = field(default_factory=dict)
    states: dict[int, Spread] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)
    product_of: dict[int, int] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    sources: dict[int, Spread] = field(default_factory=dict)
    stored: dict[int, Spread] = field(default_factory=dict)  # by the place of the store in ``stores``
    stores: list[ir.Store | ir.AtomicRmw] = field(default_factory=list)
    given: dict[int, ir.Given] = field(default_factory=dict)
    staged: dict[tuple[int, Spread], Staged] = field(default_factory=dict)
    sums: dict[int, ir.Reduce] = field(default_factory=dict)  # by state: what may stay partial in the loop
    made: dict[int, ir.Computing] = field(default_factory=dict)
    loops: dict[int, ir.Loop] = field(default_factory=dict)
    inside: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the loops around each value's operation

    @cached_property
    def heavy(self) -> list[int]:
        """Values that take registers of their own beside states."""
        of_states = {o.value.id for o, _ in self.trace.walk() if isinstance(o, ir.Set)}
        of_states |= {o.c.id for o in self.made.values() if isinstance(o, ir.Mma) and o.c is not None}
        cheap = ir.Read | ir.Load | ir.Fill | ir.Coordinates | ir.Broadcast | ir.Transpose
        return [id_ for id_, o in self.made.items() if not isinstance(o, cheap) and id_ not in of_states]

    @cached_property
    def moving(self) -> list[int]:
        """Reductions and conversions."""
        return [id_ for id_, o in self.made.items() if isinstance(o, ir.Reduce | ir.Convert)]

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
        converted = {self.made[v.id].result.shape for v, _, _ in self.conversions()}
        converted |= {o.result.shape for o in self.made.values() if isinstance(o, ir.Convert)}
        converted |= {spread.shape for _, spread, _ in self.conversions()}
        return sorted(converted | {s.value.shape for s in self.stores})

    def computed_in(self, value: ir.Value) -> list[Spread]:
        """The distributions in which a value is computed; the others are conversions from its own."""
        wanted = self.wanted.get(value.id, [])
        if not wanted:
            return []
        return wanted if self.light[value.id] else [self.natural[value.id]]

    @lru_cache(maxsize=4096)  # noqa: B019  # inferences are kept by a cache anyway
    def conversions(self) -> list[tuple[ir.Value, Spread, Spread]]:
        """(value, from, to) of every conversion, in the order of the program."""
        return [
            (operation.result, self.natural[id_], spread)
            for id_, operation in self.made.items()
            if not self.light[id_]
            for spread in self.wanted.get(id_, [])
            if spread != self.natural[id_]
        ]


@lru_cache(maxsize=4096)
def infer(trace: ir.Trace, classes: tuple[int, ...] = ()) -> Inference:
    """Of a trace with its moves, which the inference's lacks. Without ``classes`` products of one shape are alike."""
    resolved = resolve(trace)
    if not classes:
        shapes = [(o.result.shape, o.result.map) for o, _ in resolved.walk() if isinstance(o, ir.Mma)]
        classes = tuple(shapes.index(s) for s in shapes)
    found, kept = Inference(resolved, classes), list[Anchor]()
    for _ in range(6):  # states take the distribution of what a loop gives them, which may follow other states
        before = dict(found.states)
        found = Inference(resolved, classes, states=dict(before), anchors=list(kept))
        _forward(found, resolved.operations, ())
        if found.states != before:
            continue
        open_states = {o.state: o for o, _ in resolved.walk() if isinstance(o, ir.Set) and o.state not in found.states}
        if not open_states:
            break
        for state, operation in open_states.items():  # nothing else decides on them
            found.states[state] = _anchored(found, operation.value.shape, 1, operation.source, False)
        kept = found.anchors
    _name_products(found)
    _find_sums(found)
    _backward(found, resolved.operations)
    _stage(found)
    return found


# Forwards: what each value has by itself -----------------------------------------------------------------------------


def _forward(found: Inference, operations: tuple[ir.Operation, ...], around: tuple[int, ...]) -> None:
    for operation in operations:
        match operation:
            case ir.Loop():
                found.loops[operation.number] = operation
                _forward(found, operation.body, (*around, operation.number))
            case ir.If():
                _forward(found, operation.body, (*around, operation.number))
            case ir.Set(state, value):
                own = found.natural.get(value.id)
                if own is not None and (around or state not in found.states):
                    found.states[state] = own
            case ir.Store(value, window, source) | ir.AtomicRmw(_, value, window, source):
                if value.id not in found.natural:
                    _settle(found, value, _anchored(found, value.shape, _line(window), source, False))
                found.stored[len(found.stores)] = found.natural[value.id]
                found.stores.append(operation)
            case ir.Prefetch() | ir.Move():
                pass
            case _:
                found.made[operation.result.id] = operation
                found.inside[operation.result.id] = around
                own = _own(found, operation)
                found.light[operation.result.id] = _is_light(found, operation)
                if own is not None:
                    found.natural[operation.result.id] = own


def _line(window: ir.Window) -> int:
    """The dimension of the window that lies along contiguous memory."""
    return 0 if window.turned else 1


def _is_light(found: Inference, operation: ir.Computing) -> bool:
    match operation:
        case ir.Broadcast():
            return not _cuts_across(found, operation)
        case ir.Load() | ir.Fill() | ir.Coordinates():
            return True
        case ir.Map() | ir.Transpose():
            return all(found.light[v.id] for v in ir.inputs(operation))
    return False


def _own(found: Inference, operation: ir.Computing) -> Spread | None:
    result = operation.result
    match operation:
        case ir.Mma():
            return Spread("result", result.shape, _product(found, operation))
        case ir.Read(_, state):
            return found.states.get(state)
        case ir.Convert(_, value):
            if result.map is not None:
                found.given[result.id] = result.map
                return Spread("given", result.shape, result.id)
            return _anchored(found, result.shape, 1, operation.source, False)
        case ir.Load() | ir.Broadcast() if result.map is not None:  # what uses it prefers the map
            found.given[result.id] = result.map
            return Spread("given", result.shape, result.id)
        case ir.Reduce(_, _, value, dimension):
            source = found.natural.get(value.id)
            if _is_split(found, source, dimension, operation):
                small = _anchored(found, result.shape, 1, operation.source, False)
                source = small.expand(dimension, operation.size)
            elif source is None:
                source = _anchored(found, value.shape, 1, operation.source, dimension == 1)
                _settle(found, value, source)
            found.sources[result.id] = source
            return source.group(dimension, operation.size)
        case ir.Broadcast(_, value, dimension):
            own = found.natural.get(value.id)
            if _cuts_across(found, operation):
                return (own or _anchored(found, value.shape, 1, operation.source, False)).expand(
                    dimension, operation.size
                )
            if own is not None and own.kind in ("drop", "group") and own.of is not None and own.number == dimension:
                return own.of if own.of.shape == result.shape else None
            return None
        case ir.Transpose(_, value):
            own = found.natural.get(value.id)
            return None if own is None else own.swap()
        case ir.Map():
            owns = [(v, found.natural[v.id]) for v in ir.inputs(operation) if v.id in found.natural]
            heavy = [own for v, own in owns if not found.light[v.id]]
            return heavy[0] if heavy else owns[0][1] if owns else None
    return None


def _is_split(found: Inference, source: Spread | None, dimension: int, operation: ir.Reduce) -> bool:
    """Whether groups of a reduction would lie across what a warp, a lane or a register has: those that are no power of
    two, those of lines of memory, which warps share, and those that a map of the user gives to several subgroups."""
    size = operation.size
    if size == operation.value.shape[dimension]:
        return False
    if source is not None and source.kind == "blocked" and found.anchors[source.number].along != dimension:
        return True
    given = found.given.get(source.number) if source is not None and source.kind == "given" else None
    return size & (size - 1) != 0 or (isinstance(given, WgMap) and given.sg_data[dimension] % size != 0)


def _cuts_across(found: Inference, operation: ir.Broadcast) -> bool:
    """Whether what a broadcast fills may lie across what a thread has: no power of two, or cut by maps of the user."""
    if operation.value.shape[operation.dimension] == 1:
        return False
    return operation.size & (operation.size - 1) != 0 or bool(found.given) or found.trace.mapped


def _product(found: Inference, operation: ir.Mma) -> int:
    """The number of the product's group."""
    place = len(found.product_of)
    given = _result_map(operation)
    known = list(dict.fromkeys(found.classes))
    number = known.index(found.classes[place])
    if number == len(found.products):
        found.products.append(Product(number, operation.result.shape, given, ""))
    found.product_of[operation.result.id] = number
    return number


def _result_map(operation: ir.Mma) -> ir.Given | None:
    """The map of a product's result: the one that the program says, or that follows from those of both operands."""
    a, b = operation.a.map, operation.b.map
    if operation.result.map is None and isinstance(a, WgMap) and isinstance(b, WgMap):
        return WgMap(a.sg_layout, (a.sg_data[0], b.sg_data[1]))
    return operation.result.map


def _name_products(found: Inference) -> None:
    """Parameters of the only group have no suffix."""
    if len(found.products) > 1:
        found.products = [Product(p.number, p.shape, p.given, f"_{p.number + 1}") for p in found.products]


def _anchored(found: Inference, shape: Shape, along: int, source: ir.Source, reduced: bool) -> Spread:
    """Blocks along memory; tiles of one shape share them."""
    if shape[along] == 1:
        along = 1 - along
    for anchor in found.anchors:
        if anchor.shape == shape and anchor.along == along:
            return Spread("blocked", shape, anchor.number)
    found.anchors.append(Anchor(len(found.anchors), shape, along, source, reduced))
    return Spread("blocked", shape, len(found.anchors) - 1)


def _settle(found: Inference, value: ir.Value, spread: Spread) -> None:
    """Values of this shape that ``value`` is made of are computed in ``spread``, and what uses them prefers it."""
    if value.id in found.natural or value.shape != spread.shape:
        return
    found.natural[value.id] = spread
    operation = found.made[value.id]
    if isinstance(operation, ir.Map):
        for argument in ir.inputs(operation):
            _settle(found, argument, spread)


# Backwards: where each value is wanted --------------------------------------------------------------------------------


def _want(found: Inference, value: ir.Value, spread: Spread) -> None:
    wanted = found.wanted.setdefault(value.id, [])
    if spread not in wanted:
        wanted.append(spread)


def _backward(found: Inference, operations: tuple[ir.Operation, ...]) -> None:
    stores = len(found.stores)
    for operation in reversed(_flat(operations)):
        match operation:
            case ir.Store() | ir.AtomicRmw():
                stores -= 1
                _want(found, operation.value, found.stored[stores])
            case ir.Set(state, value):
                _want(found, value, found.states[state])
            case ir.Prefetch() | ir.Move() | ir.Loop() | ir.If():
                pass
            case _:
                for spread in found.computed_in(operation.result):
                    _want_inputs(found, operation, spread)


def _flat(operations: tuple[ir.Operation, ...]) -> list[ir.Operation]:
    flat: list[ir.Operation] = []
    for operation in operations:
        flat += _flat(operation.body) if isinstance(operation, ir.Region) else [operation]
    return flat


def _want_inputs(found: Inference, operation: ir.Computing, spread: Spread) -> None:
    match operation:
        case ir.Mma(result, a, b, c):
            number = found.product_of[result.id]
            _want(found, a, Spread("left", a.shape, number))
            _want(found, b, Spread("right", b.shape, number))
            if c is not None:
                _want(found, c, spread)
        case ir.Reduce(result, _, value):
            _want(found, value, found.sources[result.id])
        case ir.Broadcast(_, value, dimension):
            _want(found, value, spread.group(dimension, operation.size))
        case ir.Transpose(_, value):
            _want(found, value, spread.swap())
        case ir.Convert(_, value):
            _want(found, value, found.natural.get(value.id, spread))
        case ir.Map():
            for value in ir.inputs(operation):
                _want(found, value, spread)


# Sums that may stay partial ------------------------------------------------------------------------------------------


def _find_sums(found: Inference) -> None:
    """States of a loop that add a reduction each turn, and are read behind it alone or scaled in it."""
    reads: dict[int, int] = {}
    uses: dict[int, int] = {}
    for operation, _ in found.trace.walk():
        if isinstance(operation, ir.Read):
            reads[operation.result.id] = operation.state
        for value in ir.inputs(operation):
            uses[value.id] = uses.get(value.id, 0) + 1
    for loop in found.loops.values():
        sets: dict[int, list[ir.Set]] = {}
        for operation in _flat(loop.body):
            if isinstance(operation, ir.Set):
                sets.setdefault(operation.state, []).append(operation)
        for state, given in sets.items():
            reads_inside = [r for r, s in reads.items() if s == state and loop.number in found.inside[r]]
            if given[0] not in loop.body:
                continue
            if len(given) != 1 or len(reads_inside) != 1 or uses.get(reads_inside[0]) != 1:
                continue
            reduce = _added(found, given[0].value, reads_inside[0], uses)
            if (
                reduce is not None
                and loop.number in found.inside[reduce.result.id]
                and _starts_at_zero(found, state, loop)
            ):
                found.sums[state] = reduce


def _added(found: Inference, value: ir.Value, read: int, uses: dict[int, int]) -> ir.Reduce | None:
    """The reduction in ``read + reduction`` or ``read * factor + reduction``."""
    operation = found.made.get(value.id)
    if not isinstance(operation, ir.Map) or operation.function != "add" or uses.get(value.id) != 1:
        return None
    for first, second in (operation.arguments, operation.arguments[::-1]):
        if not isinstance(first, ir.Value) or not isinstance(second, ir.Value):
            return None
        made = found.made[second.id]
        if isinstance(made, ir.Reduce) and made.kind == "add" and uses.get(second.id) == 1:
            scaled = found.made[first.id]
            if first.id == read:
                return made
            if isinstance(scaled, ir.Map) and scaled.function == "multiply" and uses.get(first.id) == 1:
                taken = [a for a in scaled.arguments if isinstance(a, ir.Value)]
                if any(a.id == read for a in taken):
                    return made
    return None


def _starts_at_zero(found: Inference, state: int, loop: ir.Loop) -> bool:
    for operation, around in found.trace.walk():
        if operation is loop:
            return False
        if isinstance(operation, ir.Set) and operation.state == state:
            made = found.made[operation.value.id]
            return not around and isinstance(made, ir.Fill) and made.number == 0.0
    return False


# Loads that go through shared memory ---------------------------------------------------------------------------------


def linear(index: Index, loop: int) -> tuple[Index, int] | None:
    """``index`` as (what the loop's turn does not change, what each turn adds), or None."""
    if loop not in index.loops:
        return index, 0
    if index.kind == "loop":
        return Index("constant", 0), 1
    parts = [linear(a, loop) for a in index.args]
    if index.kind == "multiply" and parts[0] is not None:
        return parts[0][0] * index.number, parts[0][1] * index.number
    if index.kind == "add" and parts[0] is not None and parts[1] is not None:
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    return None


def _stage(found: Inference) -> None:
    names: list[str] = []
    for id_, operation in list(found.made.items()):
        if not isinstance(operation, ir.Load):
            continue
        for spread in found.wanted.get(id_, []):
            base = spread.of if spread.kind == "swap" and spread.of is not None else spread
            if not base.operand:
                continue
            staged = _staged(found, operation, base, spread.kind == "swap", names)
            if staged is not None:
                found.staged[id_, spread] = staged
                names.append(staged.name)


def _staged(found: Inference, load: ir.Load, spread: Spread, turned: bool, names: list[str]) -> Staged | None:
    window, around = load.window, found.inside[load.result.id]
    if window.array.role == "shared" or any(number not in found.loops for number in around):
        return None
    if load.padding != 0.0 or len(around) > 1 or not window.array.dtype.is_float:
        return None
    start, steps = list(window.at), [0, 0]
    if around:
        for d in (0, 1):
            split = linear(window.at[d], around[0])
            if split is None:
                return None
            start[d], steps[d] = split
    trace = found.trace
    turns = trace.turns()
    for d in (0, 1):
        size, extent = window.shape[d], window.extent[d]
        if steps[d] not in (0, size):
            return None
        low, high = window.at[d].interval(trace.blocks, turns)
        if low < 0 or (extent % size == 0 and high + size > extent):
            return None
    if all(steps):
        return None
    line = _line(window)
    advance: Literal["major", "minor", ""] = "" if not any(steps) else "minor" if steps[line] else "major"
    name = window.array.name
    if name in names:
        name = f"{name}_{sum(n.split('_')[0] == name for n in names) + 1}"
        while name in names:
            name += "_"
    row_major = (line == 1) != turned
    alignment = gcd(window.array.matrix[1], window.at[line].divisor) or window.array.matrix[1]
    return Staged(
        name=name,
        load=load,
        side="a" if spread.kind == "left" else "b",
        product=spread.number,
        shape=spread.shape,
        row_major=row_major,
        loop=around[0] if around else None,
        advance=advance,
        start=(start[0], start[1]),
        alignment=alignment,
    )
