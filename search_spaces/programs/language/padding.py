"""Check that padding, the elements of tiles outside of arrays, does not change reductions or products.

A load sets the padding of a tile, and functions propagate it: 0 times a finite number is 0, -inf minus a finite number
is -inf, exp2(-inf) is 0. A mask that compares positions with an extent (``p.columns(j, bn) < n``) is known to be false
in the padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from search_spaces.programs.language import ir
from search_spaces.programs.language.bounded import cast
from search_spaces.programs.language.functions import PICKS, REDUCTIONS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import ProgramError, Source
from search_spaces.programs.language.outside import (
    INSIDE,
    Edge,
    Outside,
    either,
    grouped,
    implied,
    joined,
    known_number,
    misses,
    shifted,
    stretched,
)

Both = tuple[Outside, Outside]


@dataclass
class _Walk:
    trace: ir.Trace
    iterations: dict[int, int]
    outside: dict[int, Both]
    everywhere: dict[int, float]  # the value of each tile whose elements are all equal, by id
    states: dict[int, tuple[Both, float | None]]
    definitions: dict[int, ir.Computing]
    shared: dict[str, Both] = field(default_factory=dict)

    def run(self, operations: tuple[ir.Operation, ...]) -> None:
        """Track padding through the operations, in order."""
        for operation in operations:
            match operation:
                case ir.Loop():
                    self.run(operation.body)  # The second pass starts with the states at the end of an iteration.
                    self.run(operation.body)
                case ir.If():
                    self.run(operation.body)
                case ir.Set(state, value):
                    self._set(state, value)
                case ir.FetchPart(states, copies):
                    self.states |= {o: (self.states[s][0], None) for s, o in zip(states, copies, strict=True)}
                case ir.StoreTile(value, window) if window.array.role == "shared":
                    self._keep(value, window)
                case ir.StoreTile(_, window, source) | ir.AtomicRmw(_, _, window, source) if window.index is not None:
                    self._check_positions(window, source)
                    self._fetched(operation)
                case ir.AtomicFetch():
                    self._fetched(operation)
                case ir.StoreTile() | ir.AtomicRmw() | ir.Prefetch() | ir.Move():
                    pass
                case ir.LoadScalar() | ir.Uniform() | ir.FindTile():
                    pass
                case _:
                    self.definitions[operation.result.id] = operation
                    rows, columns = self._of(operation)
                    self.outside[operation.result.id] = rows, columns

    def _fetched(self, operation: ir.Operation) -> None:
        """Record the padding of an atomic's result: its elements outside of the array are 0."""
        if isinstance(operation, ir.AtomicFetch):
            rows, columns = (self._loaded(operation.window, 0.0, operation.source, d) for d in (0, 1))
            self.outside[operation.result.id] = rows, columns
            self.definitions[operation.result.id] = operation

    def _set(self, state: int, value: ir.Value) -> None:
        assigned, number = self.outside[value.id], self.everywhere.get(value.id)
        if state in self.states:
            before, constant = self.states[state]
            assigned = (
                joined(before[0], assigned[0], constant, number),
                joined(before[1], assigned[1], constant, number),
            )
            number = number if number == constant else None
        self.states[state] = assigned, number

    def _keep(self, value: ir.Value, window: ir.Window) -> None:
        """Update the recorded padding of a shared-memory tile when ``value`` is stored to a window of it."""
        name = window.array.name
        rows, columns = (shifted(o, at * -1) for o, at in zip(self.outside[value.id], window.at, strict=True))
        own = (columns, rows) if window.turned else (rows, columns)
        before = self.shared.get(name, own)
        self.shared[name] = either(before[0], own[0]), either(before[1], own[1])

    def _contents(self, window: ir.Window) -> Both:
        """Return the padding that a load through a window on a shared-memory tile may contain."""
        rows, columns = self.shared.get(window.array.name, (INSIDE, INSIDE))
        seen = (columns, rows) if window.turned else (rows, columns)
        return shifted(seen[0], window.at[0]), shifted(seen[1], window.at[1])

    def _of(self, operation: ir.Computing) -> Both:
        match operation:
            case ir.LoadTile(_, window) if window.array.role == "shared":
                return self._contents(window)
            case ir.LoadTile(_, window, padding, source):
                return self._loaded(window, padding, source, 0), self._loaded(window, padding, source, 1)
            case ir.Fill(result, number):
                self.everywhere[result.id] = number
                return INSIDE, INSIDE
            case ir.Read(result, state):
                held, constant = self.states.get(state, ((INSIDE, INSIDE), None))
                if constant is not None:
                    self.everywhere[result.id] = constant
                return held
            case ir.TransposeTile(_, value):
                return self.outside[value.id][1], self.outside[value.id][0]
            case ir.Reshape(result, value, source):
                return self._reshaped(result.shape, value, source)
            case ir.Convert(_, value) | ir.PadTile(_, value):
                return self.outside[value.id]
            case ir.Broadcast(result, value, dimension):
                if value.id in self.everywhere:
                    self.everywhere[result.id] = self.everywhere[value.id]
                rows, columns = self.outside[value.id]
                if value.shape[dimension] == 1:
                    return (INSIDE, columns) if dimension == 0 else (rows, INSIDE)
                if dimension == 0:
                    return stretched(rows, operation.size), columns
                return rows, stretched(columns, operation.size)
            case ir.ReduceTile():
                return self._reduced(operation)
            case ir.Scan():
                return self._scanned(operation)
            case ir.Mma():
                return self._product(operation)
            case ir.Map():
                return self._mapped(operation, 0), self._mapped(operation, 1)
        return INSIDE, INSIDE

    def _loaded(self, window: ir.Window, padding: float, source: Source, d: int) -> Outside:
        if window.index is not None and d in window.indexed:
            positions = self.outside[window.index.id][d]
            if positions.kind == "inside":
                return INSIDE
            return (
                replace(positions, value=padding) if misses(window, positions) else replace(positions, kind="unknown")
            )
        low, high = window.at[d].interval(self.trace.most_blocks, self.iterations)
        edges: set[Edge] = set()
        if high + window.shape[d] > window.least[d]:
            edges.add((window.at[d], window.least[d], False))
        if low < 0:
            edges.add((window.at[d], 0, True))
        return Outside("constant", padding, frozenset(edges), source) if edges else INSIDE

    def _check_positions(self, window: ir.Window, source: Source) -> None:
        assert window.index is not None
        for d in window.indexed:
            positions = self.outside[window.index.id][d]
            if positions.kind != "inside" and not misses(window, positions):
                held = f"{positions.value:g}" if positions.kind == "constant" else "unknown"
                raise ProgramError(
                    f"{source}: store: indices loaded from beyond the end of their array are {held} (load at "
                    f"{positions.source}), which may be a valid position of {window.array.name}: load the indices "
                    "with padding=-1"
                )

    def _reshaped(self, shape: ir.Shape, value: ir.Value, source: Source) -> Both:
        """Return the padding of a reshaped tile. Raises ProgramError unless padding consists of whole rows."""
        rows, columns = self.outside[value.id]
        if columns.kind != "inside":
            raise ProgramError(
                f"{source}: reshape: columns reach beyond the array (loaded at {columns.source}): load whole rows, "
                "or use p.where"
            )
        if shape[0] >= value.shape[0]:
            return stretched(rows, shape[0] // value.shape[0]), INSIDE
        joined_rows = grouped(rows, value.shape[0] // shape[0])
        if joined_rows is None:
            raise ProgramError(
                f"{source}: reshape: a new row would join rows inside and outside of the array (loaded at "
                f"{rows.source}): use p.where, or a tile that does not reach beyond the array"
            )
        return joined_rows, INSIDE

    def _reduced(self, operation: ir.ReduceTile) -> Both:
        d, kind = operation.dimension, operation.kind
        both = list(self.outside[operation.value.id])
        along, other = both[d], both[1 - d]
        picks = operation.index is not None
        neutral = PICKS[kind].start[operation.value.dtype.name] if picks else REDUCTIONS[kind].start
        if picks and along.kind == "constant" and any(before for _, _, before in along.edges):
            # Padding before the array has smaller indices, so it would be picked among equal elements.
            along = replace(along, kind="unknown")
        whole = operation.size == operation.value.shape[d]
        groups = None if whole else grouped(along, operation.size)
        adds_nothing = along.kind == "inside" or (along.kind == "constant" and along.value == neutral)
        if groups is not None:
            along = groups if adds_nothing else replace(groups, kind="unknown")
        elif not adds_nothing:
            held = f"{along.value:g}" if along.kind == "constant" else "unknown values"
            axis = ("rows", "columns")[d]
            raise ProgramError(
                f"{operation.source}: reduction: {kind} includes {held} in {axis} outside of the array (loaded at "
                f"{along.source}): load with padding={neutral:g}, or use p.where with p.{axis}"
            )
        both[d] = INSIDE if whole else along
        if other.kind == "constant" and (picks or (other.value != neutral and REDUCTIONS[kind].ordered)):
            both[1 - d] = replace(other, kind="unknown")
        return both[0], both[1]

    def _scanned(self, operation: ir.Scan) -> Both:
        """Return the padding of a scanned tile. Raises ProgramError if padding changes elements inside the array."""
        d, kind = operation.dimension, operation.kind
        both = list(self.outside[operation.value.id])
        along, other, neutral = both[d], both[1 - d], REDUCTIONS[kind].start
        seen = any(before != operation.reverse for _, _, before in along.edges)
        if along.kind != "inside" and seen and not (along.kind == "constant" and along.value == neutral):
            held, axis = f"{along.value:g}" if along.kind == "constant" else "unknown values", ("rows", "columns")[d]
            raise ProgramError(
                f"{operation.source}: scan: {kind} includes {held} in {axis} outside of the array (loaded at "
                f"{along.source}): load with padding={neutral:g}, or use p.where with p.{axis}"
            )
        if along.kind != "inside":
            both[d] = replace(along, kind="unknown")
        if other.kind == "constant" and (operation.exclusive or other.value != neutral):
            both[1 - d] = replace(other, kind="unknown")
        return both[0], both[1]

    def _product(self, operation: ir.Mma) -> Both:
        a, b = self.outside[operation.a.id], self.outside[operation.b.id]
        left, right = a[1], b[0]
        open_ends = [o for o in (left, right) if o.kind != "inside"]
        zero = [o for o in open_ends if o.kind == "constant" and o.value == 0.0]
        other_finite = all(o.kind != "constant" or math.isfinite(o.value) for o in open_ends)
        if open_ends and not (zero and other_finite):
            raise ProgramError(
                f"{operation.source}: mma: neither operand is known to be 0 along k outside of the arrays (loaded at "
                f"{open_ends[0].source}): load with padding=0, or use p.where"
            )
        ends = []
        for d, operand in ((0, a), (1, b)):
            own = operand[d]
            if operation.c is not None and own.kind == "constant" and own.value == 0.0:
                added = self.outside[operation.c.id][d]
                number = self.everywhere.get(operation.c.id)
                if number is None and (added.kind, added.value) != ("constant", 0.0):
                    own = replace(own, kind="unknown")
                elif number is not None:
                    own = replace(own, value=number)
            elif own.kind == "constant" and own.value != 0.0:
                own = replace(own, kind="unknown")
            ends.append(own)
        return ends[0], ends[1]

    def _mapped(self, operation: ir.Map, d: int) -> Outside:
        if operation.function in ("less", "less_equal", "and"):
            known = self._false(operation, d)
            if known:
                return Outside("constant", 0.0, known, operation.source)
        owns = [self.outside[a.id][d] if isinstance(a, ir.Value) else INSIDE for a in operation.arguments]
        edges: frozenset[Edge] = frozenset().union(*(o.edges for o in owns))
        source = next((o.source for o in owns if o.source is not None), None)
        values: list[float | None] = []
        for argument, own in zip(operation.arguments, owns, strict=True):
            if not isinstance(argument, ir.Value):
                values.append(argument)
            elif own.kind == "inside":
                values.append(self.everywhere.get(argument.id))
            else:
                # A position beyond the edge of another argument's array may still be inside this argument's array.
                covers = own.kind == "constant" and edges <= implied(own.edges, edges)
                values.append(own.value if covers else None)
        if not edges:
            return INSIDE
        if operation.function == "where" and self._is_other(operation, owns):
            return Outside("constant", values[2] or 0.0, edges, source)
        number = known_number(operation.function, values)
        if number is not None and operation.function == "cast":
            number = float(cast(operation.result.dtype, (np.array([number]), np.zeros(1)))[0][0])
        if number is None:
            return Outside("unknown", 0.0, edges, source)
        return Outside("constant", number, edges, source)

    def _is_other(self, operation: ir.Map, owns: list[Outside]) -> bool:
        """Return True if a ``where`` has a constant as third argument and returns this constant beyond every edge.

        Beyond each edge, either the condition must be false, or the second argument must be the same constant.
        """
        other = operation.arguments[2]
        number = self.everywhere.get(other.id) if isinstance(other, ir.Value) else other
        if number is None or owns[2].kind != "inside":
            return False
        rest = [(owns[0], 0.0), (owns[1], number)]
        return all(own.kind == "inside" or (own.kind == "constant" and own.value == wanted) for own, wanted in rest)

    def _false(self, operation: ir.Map, d: int) -> frozenset[Edge]:
        """Return the edges along dimension ``d`` beyond which a condition on positions is false."""
        if operation.function == "and":
            edges: frozenset[Edge] = frozenset()
            for argument in operation.arguments:
                if isinstance(argument, ir.Value):
                    own = self.outside[argument.id][d]
                    if own.kind == "constant" and own.value == 0.0:
                        edges |= own.edges
            return edges
        left, right = operation.arguments
        positions = [self._positions(a, d) if isinstance(a, ir.Value) else None for a in (left, right)]
        bounds = [self._bound(left, least=True), self._bound(right, least=False)]
        closed, shape = operation.function == "less_equal", operation.result.shape
        if any(bound is not None and not math.isfinite(bound) for bound in bounds):
            return frozenset()
        if positions[0] is not None and bounds[1] is not None:
            end = math.floor(bounds[1]) + 1 if closed else math.ceil(bounds[1])
            _, high = positions[0].interval(self.trace.most_blocks, self.iterations)
            return frozenset() if high + shape[d] <= end else frozenset({(positions[0], end, False)})
        if positions[1] is not None and bounds[0] is not None:
            first = math.ceil(bounds[0]) if closed else math.floor(bounds[0]) + 1
            low, _ = positions[1].interval(self.trace.most_blocks, self.iterations)
            return frozenset() if low >= first else frozenset({(positions[1], first, True)})
        return frozenset()

    def _bound(self, argument: ir.Value | float, least: bool) -> float | None:
        """Return an operand's known value, or the smallest or largest value of an index; None for other operands."""
        if not isinstance(argument, ir.Value):
            return argument
        operation = self.definitions.get(argument.id)
        while isinstance(operation, ir.Broadcast):
            operation = self.definitions.get(operation.value.id)
        if isinstance(operation, ir.Coordinates) and operation.result.shape == (1, 1):
            return operation.base.interval(self.trace.most_blocks, self.iterations)[0 if least else 1]
        return self.everywhere.get(argument.id)

    def _positions(self, value: ir.Value, d: int) -> Index | None:
        operation = self.definitions[value.id]
        if isinstance(operation, ir.Broadcast):
            return None if operation.dimension == d else self._positions(operation.value, d)
        if isinstance(operation, ir.Coordinates) and operation.dimension == d:
            return operation.base
        return None


def check_padding(trace: ir.Trace) -> None:
    """Check a trace whose moves are resolved. Raises ProgramError if padding changes a reduction or product."""
    _Walk(trace, trace.iterations(), {}, {}, {}, {}).run(trace.operations)
