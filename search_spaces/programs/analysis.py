"""What the compiler makes of a trace: one loop of products from zero, then element-wise arithmetic and stores.

Anything else is refused with the place of the operation and the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from search_spaces.hardware.requirements import OperandSide
from search_spaces.programs import ir
from search_spaces.programs.ir import ProgramError, Source

MULTIPLIED = ("f16", "bf16")


@dataclass(frozen=True)
class Operand:
    """A load of the loop, staged through shared memory. ``row_major``: the array's lines are rows of the operand."""

    name: str
    side: OperandSide
    array: ir.Array
    row_major: bool


@dataclass(frozen=True)
class Product:
    """``state`` is what the loop adds to; ``a`` and ``b`` are places in the operands of the analysis."""

    state: int
    a: int
    b: int
    source: Source


@dataclass(frozen=True)
class Analysis:
    """``tile`` is (m, n, k) of every product, ``end`` what comes behind the loop."""

    trace: ir.Trace
    operands: tuple[Operand, ...]
    products: tuple[Product, ...]
    tile: tuple[int, int, int]
    depth: int  # the extent of the loop
    end: tuple[ir.Operation, ...]

    @property
    def stores(self) -> tuple[ir.Store, ...]:
        return tuple(o for o in self.end if isinstance(o, ir.Store))


def _refuse(source: Source, operation: str, reason: str) -> NoReturn:
    raise ProgramError(f"{source}: {operation}: {reason}")


def analyse(trace: ir.Trace) -> Analysis:
    """Raises ProgramError for a program that the compiler does not lower."""
    loops = [o for o in trace.operations if isinstance(o, ir.Loop)]
    if len(loops) != 1:
        where = f"{loops[1].source}: steps: " if len(loops) > 1 else ""
        raise ProgramError(f"{where}a program that is compiled has one loop of products, not {len(loops)}")
    loop = loops[0]
    at = trace.operations.index(loop)
    zeros = _zeros(trace.operations[:at])
    operands, products = _loop(loop, zeros, trace)
    shapes = {_tile(loop, product) for product in products}
    if len(shapes) != 1:
        _refuse(products[1].source, "mma", "all products of a loop need one shape")
    m, n, k = shapes.pop()
    if k != loop.step:
        _refuse(loop.source, "steps", f"the loop's step is {loop.step}, but its products are {k} deep")
    if (m, n) != trace.tile:
        _refuse(products[0].source, "mma", f"a product is {m}x{n}, but p.blocks cuts tiles of {trace.tile}")
    end = trace.operations[at + 1 :]
    _check_end(end, trace, {p.state for p in products})
    return Analysis(trace, operands, products, (m, n, k), loop.extent, end)


def _zeros(operations: tuple[ir.Operation, ...]) -> set[int]:
    """The states that are zero in front of the loop."""
    fills: dict[int, float] = {}
    zeros = set()
    for operation in operations:
        match operation:
            case ir.Fill(result, number):
                fills[result.id] = number
            case ir.Set(state, value, source):
                if fills.get(value.id) != 0.0:
                    _refuse(source, "state", "a state that a product is added to begins as p.zeros")
                zeros.add(state)
            case _:
                name = type(operation).__name__.lower()
                _refuse(operation.source, name, "only states are made in front of the loop")
    return zeros


def _tile(loop: ir.Loop, product: Product) -> tuple[int, int, int]:
    mma = next(o for o in loop.body if isinstance(o, ir.Mma) and o.source == product.source)
    return mma.a.shape[0], mma.b.shape[1], mma.a.shape[1]


def _loop(loop: ir.Loop, zeros: set[int], trace: ir.Trace) -> tuple[tuple[Operand, ...], tuple[Product, ...]]:
    loads: dict[int, ir.Load] = {}
    turned: dict[int, int] = {}  # by a transpose: result and operand
    reads: dict[int, int] = {}
    mmas: dict[int, ir.Mma] = {}
    moves: dict[int, tuple[int, int]] = {}
    sets: list[tuple[int, ir.Mma]] = []
    for operation in loop.body:
        match operation:
            case ir.Load(result):
                if operation.window.id in moves:
                    _refuse(operation.source, "load", "a window moves behind its loads")
                loads[result.id] = operation
            case ir.Transpose(result, value):
                if value.id not in loads:
                    _refuse(operation.source, "transpose", "in the loop only what was loaded is transposed")
                turned[result.id] = value.id
            case ir.Read(result, state):
                reads[result.id] = state
            case ir.Mma(result, _, _, c):
                if c is None or reads.get(c.id) not in zeros:
                    _refuse(operation.source, "mma", "a product in a loop is added to a p.state that began as p.zeros")
                mmas[result.id] = operation
            case ir.Set(state, value):
                mma = mmas.get(value.id)
                if mma is None or mma.c is None or reads[mma.c.id] != state:
                    _refuse(operation.source, "set", "in the loop a state becomes its own sum with a product")
                sets.append((state, mma))
            case ir.Move(window, by):
                before = moves.get(window.id, (0, 0))
                moves[window.id] = (before[0] + by[0], before[1] + by[1])
            case _:
                name = operation.function if isinstance(operation, ir.Map) else type(operation).__name__.lower()
                _refuse(operation.source, name, "the loop holds loads, transposes, products and moves alone")
    if not sets or len({state for state, _ in sets}) != len(sets):
        _refuse(loop.source, "steps", "the loop needs a product, and one product for each state")
    places: dict[tuple[OperandSide, int, bool], int] = {}
    operands: list[Operand] = []

    def operand(side: OperandSide, value: ir.Value, mma: ir.Mma) -> int:
        is_turned = value.id in turned
        load = loads.get(turned.get(value.id, value.id))
        if load is None:
            _refuse(mma.source, "mma", f"{side} must be loaded in the loop")
        key = (side, load.result.id, is_turned)
        if key not in places:
            _check_operand(load, side, is_turned, moves.get(load.window.id, (0, 0)), loop)
            name, names = load.window.array.name, [o.name for o in operands]
            places[key] = len(operands)
            operands.append(
                Operand(name if name not in names else f"{name}_{len(names)}", side, load.window.array, not is_turned)
            )
        return places[key]

    products = tuple(Product(s, operand("a", m.a, m), operand("b", m.b, m), m.source) for s, m in sets)
    if len({o.array.dtype for o in operands}) != 1 or operands[0].array.dtype.name not in MULTIPLIED:
        _refuse(products[0].source, "mma", f"products are compiled for operands of {' or '.join(MULTIPLIED)}")
    return tuple(operands), products


def _check_operand(load: ir.Load, side: OperandSide, turned: bool, moved: tuple[int, int], loop: ir.Loop) -> None:
    window = load.window
    along_k = int((side == "a") != turned)  # the window's dimension that is summed over
    axis = 0 if side == "a" else 1
    if window.at[along_k] != ir.Index() or moved[along_k] != loop.step or moved[1 - along_k] != 0:
        _refuse(load.source, "load", f"the window must begin at 0 along k, and move by {loop.step} in each step")
    if window.extent[along_k] != loop.extent:
        _refuse(
            load.source,
            "load",
            f"{window.array.name} has {window.extent[along_k]} elements along k, but the loop {loop.extent}",
        )
    place = window.at[1 - along_k]
    if (place.axis, place.step, place.constant) != (axis, window.shape[1 - along_k], 0):
        told = "rows" if side == "a" else "columns"
        _refuse(load.source, "load", f"the window must begin where the block's {told} do (p.blocks)")
    if window.column:
        _refuse(load.source, "load", "an operand of a product has two extents")


def _check_end(end: tuple[ir.Operation, ...], trace: ir.Trace, states: set[int]) -> None:
    stored: list[str] = []
    for operation in end:
        match operation:
            case ir.Load(_, window, source):
                for dimension in (0, 1):
                    _check_place(source, "load", window, dimension, trace)
            case ir.Store(_, window, source):
                if window.shape != trace.tile or window.extent != trace.extent or window.at != _tile_place(trace):
                    _refuse(
                        source, "store", "a block stores its whole tile, at its place, and the blocks cover the array"
                    )
                if window.array.name in stored:
                    _refuse(source, "store", f"{window.array.name} is stored twice")
                stored.append(window.array.name)
            case ir.Read(_, state, source):
                if state not in states:
                    _refuse(source, "state", "behind the loop only what the loop added up is read")
            case ir.Map() | ir.Broadcast() | ir.Fill():
                pass
            case _:
                name = type(operation).__name__.lower()
                _refuse(operation.source, name, "behind the loop there are loads, element-wise functions and stores")
    missing = [a.name for a in trace.arrays if a.role == "output" and a.name not in stored]
    if missing:
        raise ProgramError(f"the output {missing[0]} is never stored")


def _tile_place(trace: ir.Trace) -> tuple[ir.Index, ir.Index]:
    return ir.Index(0, trace.tile[0]), ir.Index(1, trace.tile[1])


def _check_place(source: Source, operation: str, window: ir.Window, dimension: int, trace: ir.Trace) -> None:
    """A window behind the loop is as long as the block's tile, at its place, or one element at a fixed place."""
    place, size = window.at[dimension], window.shape[dimension]
    if size == 1 and place.step == 0 and 0 <= place.constant < window.extent[dimension]:
        return
    if size != trace.tile[dimension] or place != _tile_place(trace)[dimension]:
        _refuse(
            source,
            operation,
            f"along dimension {dimension} a window behind the loop is the block's tile, or one element at a place",
        )
