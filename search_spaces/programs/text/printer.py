"""Print a trace as a listing in canonical spelling. ``parse`` reads this listing as the same program.

Extents and tile sizes are numbers, as a trace belongs to one choice of sizes. A window is created before its first use.
States are printed as the statements ``state``, ``set`` and ``get``. In published listings, a state is instead a name
that is assigned several times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import ROW_MAJOR
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import ZERO, Index
from search_spaces.programs.text.listing import (
    Attribute,
    Combined,
    Expression,
    Layout,
    ListedArray,
    Listing,
    Sign,
    Statement,
    Type,
)
from search_spaces.programs.text.names import cast_text, function_text

_SIGNS: dict[str, Sign] = {"add": "+", "multiply": "*", "floordiv": "floordiv", "mod": "mod", "minimum": "min",
                           "maximum": "max"}  # fmt: skip


def listing(trace: ir.Trace) -> Listing:
    """Return a trace as a listing."""
    parameters = tuple(
        ListedArray(f"%{a.name}", Type("memref", a.full, a.dtype.name), a.role, a.sizes) for a in trace.arrays
    )
    printer = _Printer(trace)
    shared = tuple(
        Statement("memref.alloc", (f"%{a.name}",), takes=(printer.memref(a),))
        for a in sorted(trace.shared, key=lambda a: int(a.name.rpartition("_")[2]))
    )
    names = tuple(f"%i{axis}" for axis in range(len(trace.extent)))
    grid = Statement(
        "scf.forall",
        names,
        index=((0,) * len(names), trace.extent, trace.tile),
        body=tuple(printer.body(trace.written or trace.operations)),
    )
    return Listing(trace.name, parameters, (*shared, grid), trace.chosen)


def text(trace: ir.Trace) -> str:
    """Return a trace as text in canonical spelling."""
    return str(listing(trace))


class _Printer:
    def __init__(self, trace: ir.Trace) -> None:
        self.values: dict[int, str] = {}
        self.states: dict[int, str] = {}
        self.windows: dict[int, str] = {}
        self.expressions: dict[Index, Expression] = {}
        for axis, tile in enumerate(trace.tile):
            self._name(Index("block", axis), tile, f"%i{axis}")
        self.loops = self.numbers = 0

    def _name(self, counter: Index, step: int, name: str) -> None:
        """Name the position ``counter * step``. The counter is then printed as this position divided by ``step``."""
        self.expressions[counter] = Combined(_SIGNS["floordiv"], (name, step))
        self.expressions[counter * step] = name

    def memref(self, array: ir.Array) -> Type:
        """Return the memref type of an array."""
        return Type("memref", array.full, array.dtype.name, shared=array.role == "shared")

    def seen(self, window: ir.Window) -> Type:
        """Return the memref type of a window's array, in the orientation of the window."""
        type_ = self.memref(window.array)
        if not window.turned or len(type_.dims) < 2:
            return type_
        *lead, rows, columns = type_.dims
        return Type("memref", (*lead, columns, rows), type_.element, swapped=True, shared=type_.shared)

    def value(self, value: ir.Value) -> str:
        """Return the name of a value in the text."""
        return self.values.setdefault(value.id, f"%{len(self.values)}")

    def vector(self, value: ir.Value) -> Type:
        """Return the vector type of a value."""
        return Type("vector", value.shape, value.dtype.name)

    def tile(self, window: ir.Window) -> Type:
        """Return the tile type of a window."""
        order = (0, 1) if window.turned else ROW_MAJOR
        return Type(
            "tile", window.shape, window.array.dtype.name, window.map, order, scattered=window.index is not None
        )

    def expression(self, index: Index) -> Expression:
        """Return an index as an expression. Raises ProgramError if a counter has no named position."""
        if index in self.expressions:
            return self.expressions[index]
        if index.kind == "constant":
            return index.number
        if index.kind in ("block", "loop", "size", "argument"):
            raise ir.ProgramError(f"the position {index} cannot be printed: no name for the loop counter")
        args = tuple(self.expression(a) for a in index.args)
        if index.kind in ("multiply", "floordiv", "mod"):
            args = (*args, index.number)
        return Combined(_SIGNS[index.kind], args)

    def body(self, operations: tuple[ir.Operation, ...]) -> Iterator[Statement]:
        """Yield the statements of operations."""
        waiting = iter(operations)
        for operation in waiting:
            if isinstance(operation, ir.Loop) and operation.parts:
                yield from self.shared(operation, waiting)
                continue
            if isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw | ir.Prefetch | ir.Move):
                yield from self.window(operation.window)
            yield self.statement(operation)

    def window(self, window: ir.Window) -> Iterator[Statement]:
        """Yield the statement that creates a window, if the window was not used before."""
        if window.id in self.windows:
            return
        name = self.windows[window.id] = f"%w{len(self.windows)}"
        said: tuple[str, ...] = ()
        types: tuple[Type, ...] = (self.seen(window),)
        if window.index is not None:
            said, types = (self.value(window.index),), (*types, self.vector(window.index))
        at = tuple(self.expression(i) for i in (*window.array.lead, *window.at))
        yield Statement(
            "xetile.init_tile", (name,), (f"%{window.array.name}", *said), (at,), takes=types,
            gives=(self.tile(window),),
        )  # fmt: skip

    def statement(self, operation: ir.Operation) -> Statement:
        """Return the statement of an operation."""
        match operation:
            case ir.Loop():
                return self.loop(operation)
            case ir.If(_, condition_index, equals, body):
                condition = Combined("==", (self.expression(condition_index), equals))
                return Statement("scf.if", (), (condition,), body=tuple(self.body(body)))
            case ir.LoadTile(result, window, padding):
                attributes = (("padding", padding),) if padding != 0.0 else ()
                taken = self.windows[window.id], self.tile(window)
                op = "xetile.load_tile" if window.index is None else "xetile.load_gather"
                return self.of(op, result, (taken[0],), takes=(taken[1],), attributes=attributes)
            case ir.StoreTile(value, window, _, below):
                takes = self.vector(value), self.tile(window)
                op = "xetile.store_tile" if window.index is None else "xetile.store_scatter"
                index = () if below is None else ((self.expression(below),),)
                return Statement(op, (), (self.value(value), self.windows[window.id]), index, takes=takes)
            case ir.AtomicRmw(kind, value, window):
                takes = self.vector(value), self.tile(window)
                operands = self.value(value), self.windows[window.id]
                return Statement("xetile.atomic_rmw", (), operands, kind=kind, takes=takes)
            case ir.Prefetch(window, locality):
                return Statement(
                    "xetile.prefetch_tile", (), (self.windows[window.id],), attributes=(("locality", locality),),
                    takes=(self.tile(window),),
                )  # fmt: skip
            case ir.Move(window, by):
                name = self.windows[window.id]
                return Statement("xetile.update_tile_offset", (name,), (name, *by), takes=(self.tile(window),))
            case ir.LoadScalar() | ir.Uniform():
                return self.number(operation)
            case ir.Scan() | ir.ReduceTile() if isinstance(operation, ir.Scan) or operation.index is not None:
                raise ir.ProgramError(f"{operation.source}: {operation.kind}: listings do not support this operation")
            case ir.PadTile():
                raise TypeError("traces with padded depths are not printed: use Trace.written")
            case ir.FindTile():
                raise ir.ProgramError(f"{operation.source}: find_tile: listings do not support this operation")
            case ir.FetchPart():
                raise ir.ProgramError(f"{operation.source}: split: listings support this only directly after the loop")
            case ir.Reshape(result, value):
                return self.of("vector.shape_cast", result, (value,))
            case ir.Set(state, value):
                if state in self.states:
                    return Statement("xetile.set", (), (self.states[state], self.value(value)))
                name = self.states[state] = f"%s{len(self.states)}"
                return Statement("xetile.state", (name,), (self.value(value),))
            case ir.Read(result, state):
                return Statement("xetile.get", (self.value(result),), (self.states[state],))
            case ir.Fill(result, number):
                return self.of("arith.constant", result, (number,))
            case ir.PassedScalar():
                raise ir.ProgramError(f"{operation.source}: {operation.name}: listings do not support scalar arguments")
            case ir.Coordinates(result, dimension, base):
                return self.of("linalg.index", result, (dimension,), index=((self.expression(base),),))
            case ir.Map():
                return self.map(operation)
            case ir.Mma(result, a, b, c, _, tf32):
                values = (a, b) if c is None else (a, b, c)
                rounds: tuple[tuple[str, Attribute], ...] = (("tf32", True),) if tf32 else ()
                return self.of("xetile.tile_mma", result, values, attributes=rounds)
            case ir.TransposeTile(result, value):
                return self.of("xetile.transpose", result, (value,), index=((1, 0),))
            case ir.ReduceTile(result, kind, value, dimension):
                sized: tuple[tuple[str, Attribute], ...] = ()
                if operation.size != value.shape[dimension]:
                    sized = (("reduction_size", operation.size),)
                return self.of("xetile.reduction", result, (value,), index=((dimension,),), kind=kind, attributes=sized)
            case ir.Broadcast(result, value, dimension):
                sized = (("broadcast_size", operation.size),) if value.shape[dimension] != 1 else ()
                return self.of("xetile.broadcast", result, (value,), index=((dimension,),), attributes=sized)
            case ir.Convert(result, value, shared):
                op = "iree_vector_ext.to_layout" if isinstance(result.map, NestedLayout) else "xetile.convert_layout"
                forced = (("shared_memory_conversion", True),) if shared else ()
                return self.of(op, result, (value,), attributes=forced)

    def number(self, operation: ir.LoadScalar | ir.Uniform) -> Statement:
        """Return the statement that reads a scalar index from an array or a tile."""
        index = operation.index
        low, high, usual = index.args[:3]
        bounds: tuple[tuple[str, Attribute], ...] = (("high", high.number), ("low", low.number))
        name = self.expressions[index] = f"%n{self.numbers}"
        self.numbers += 1
        if isinstance(operation, ir.Uniform):
            value = operation.value
            expressions: tuple[Expression, ...] = (self.expression(usual),)
            return Statement(
                "xetile.uniform", (name,), (self.value(value),), (expressions,), attributes=bounds,
                takes=(self.vector(value),),
            )  # fmt: skip
        if operation.ordered:
            bounds = (*bounds, ("ordered", True))
        expressions = tuple(self.expression(at) for at in operation.at)
        array = f"%{operation.array.name}"
        return Statement(
            "xetile.load_scalar", (name,), (array,), (expressions,), attributes=bounds,
            takes=(self.memref(operation.array),),
        )  # fmt: skip

    def of(
        self, op: str, result: ir.Value, operands: tuple[ir.Value | Expression, ...], *, kind: str = "",
        index: tuple[tuple[Expression, ...], ...] = (), attributes: tuple[tuple[str, Attribute], ...] = (),
        takes: tuple[Type, ...] = (),
    ) -> Statement:  # fmt: skip
        """Return a statement with a result."""
        names = tuple(self.value(o) if isinstance(o, ir.Value) else o for o in operands)
        takes = (*takes, *(self.vector(o) for o in operands if isinstance(o, ir.Value)))
        gives: tuple[Type, ...] = (self.vector(result),)
        takes, gives = (takes, gives) if takes else (gives, ())
        layouts: tuple[Layout, ...] = (result.map,) if result.map is not None and op != "xetile.load_tile" else ()
        return Statement(op, (self.value(result),), names, index, kind, layouts, attributes, takes, gives)

    def map(self, operation: ir.Map) -> Statement:
        """Return the statement of an element-wise function."""
        arguments = operation.arguments
        typed = [a.dtype for a in arguments if isinstance(a, ir.Value) and a.dtype.name != "bool"]
        dtype = typed[0] if typed else operation.result.dtype
        if operation.function == "cast":
            (value,) = ir.inputs(operation)
            return self.of(cast_text(value.dtype, operation.result.dtype), operation.result, (value,))
        statement = self.of(function_text(operation.function, dtype), operation.result, tuple(arguments))
        return Statement(statement.op, statement.results, statement.operands, takes=(self.vector(operation.result),))

    def shared(self, loop: ir.Loop, following: Iterator[ir.Operation]) -> Iterator[Statement]:
        """Yield statements for a split loop, and for the loop in ``following`` that combines its states."""
        # ``next`` skips operations that create states for parts of other blocks
        combine = next(o for o in following if isinstance(o, ir.Loop))
        fetch, *body = combine.body
        assert isinstance(fetch, ir.FetchPart)
        count = len(fetch.states)
        reads, operations, sets = body[: 2 * count], body[2 * count : -count], body[-count:]
        states = tuple(self.states[number].lstrip("%") for number in fetch.states)
        statement = self.loop(loop)
        yield replace(statement, attributes=(("parts", loop.parts), ("states", states)))
        names = tuple(self.value(o.result) for o in reads if isinstance(o, ir.Read))
        values = tuple(self.value(o.value) for o in sets if isinstance(o, ir.Set))
        statements = (*self.body(tuple(operations)), Statement("xetile.yield", (), values))
        yield Statement("xetile.combine", names, body=statements)

    def loop(self, operation: ir.Loop) -> Statement:
        """Return the statement of a loop."""
        bounds = self.expression(operation.first), self.expression(operation.stop), operation.step
        name = f"%k{self.loops}"
        self.loops += 1
        at = operation.first + Index("loop", operation.number) * operation.step
        if operation.first == ZERO:
            self._name(Index("loop", operation.number), operation.step, name)
        self.expressions[at] = name
        return Statement("scf.for", (name,), bounds, body=tuple(self.body(operation.body)))
