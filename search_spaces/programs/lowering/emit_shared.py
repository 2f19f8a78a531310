"""Emit accesses to shared-memory tiles that the program declares, and loads of staged tiles of another type.

The generated code has a barrier between a write of a tile and the next read, and between a read and the next write. The
accesses of an iteration may follow the accesses of the previous iteration. So before a loop is emitted, the accesses of
its body are recorded as earlier accesses. Accesses are tracked per tile, not per element.
"""

from __future__ import annotations

import math

from search_spaces.layouts.shared_layout import Axis
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import WIDEST, Distribution
from search_spaces.programs.lowering.emit_scans import Scans
from search_spaces.programs.lowering.refs import Ref, register_type
from search_spaces.programs.planning.exchange import reading
from search_spaces.programs.planning.memory import exchange_layout
from search_spaces.programs.planning.staging import StagedNumbers


class SharedTiles(Scans):
    """Emitter of loads and stores of shared-memory tiles."""

    def _expect_body(self, body: tuple[ir.Operation, ...]) -> None:
        """Record the accesses of a loop's body as already executed, because the previous iteration executes them."""
        for operation in body:
            if isinstance(operation, ir.Region):
                self._expect_body(operation.body)
            elif isinstance(operation, ir.LoadTile | ir.StoreTile) and operation.window.array.role == "shared":
                touched = self.shared_read if isinstance(operation, ir.LoadTile) else self.shared_written
                touched.add(operation.window.array.name)

    def _synchronise(self, array: ir.Array, before: set[str], line: ir.Source) -> None:
        """Emit a barrier if the tile is in ``before``, the set of tiles read (or written) since the last barrier."""
        if array.name in before:
            self._barrier(line)
            self.shared_read.clear()
            self.shared_written.clear()

    def _load_shared(self, operation: ir.LoadTile, spread: Spread) -> Ref:
        window, of = operation.window, self.of(spread)
        self._synchronise(window.array, self.shared_written, operation.source)
        self.shared_read.add(window.array.name)
        name = self.declare("v", register_type(window.array.dtype), of.registers)
        self._elements(name, window, of, "get_elements", operation.source)
        base = spread.of if spread.kind == "swap" and spread.of is not None else spread
        ref = Ref("array", name, operation.result.dtype)
        return self._pack(ref, of.registers, operation.source) if self.is_packed(window.array.dtype, base) else ref

    def _load_converted(self, n: StagedNumbers, operation: ir.LoadTile, spread: Spread) -> Ref:
        """Emit the load of a thread's elements of a staged tile, in the stored type, for conversion in registers."""
        of, layout, source = self.of(spread), n.layout, operation.source
        type_, tile = operation.window.array.dtype, f"tile_{n.staged.name}"
        starts, registers = [self.coordinate(of, d) for d in (0, 1)], [of.of_registers(d) for d in (0, 1)]
        order = operation.window.array.order
        read = reading(of, layout, order, self.distributions.warps, type_.bytes)
        width, between = read.width, read.steps
        in_words = type_.bits == 8 and of.registers % 4 == 0  # keep bytes packed, as ``widened`` converts pairs of them
        name = (
            self.declare("w", "unsigned", of.registers // 4)
            if in_words
            else self.declare("v", register_type(type_), of.registers)
        )

        def address_of(row: str, column: str) -> str:
            at = (row, column) if order is None else order.code(row, column)
            return f"{layout.c_name}::offset({at[0]}, {at[1]})"

        if between is not None:
            base = self.new("base")
            self.code.add(f"const int {base} = {address_of(*starts)};", source)

        def text(r: str) -> str:
            if between is None:
                row, column = (f"{starts[d]} + {self.code.at(registers[d], r)}" for d in (0, 1))
                position = address_of(row, column)
            else:
                flips, adds = (self.code.at(numbers, r) for numbers in between)
                position = f"{base if flips == '0' else f'({base} ^ {flips})'} + {adds}"
            address = f"{tile} + {type_.bytes}u * unsigned({position})"
            if in_words:
                return f"tile::get_bytes<{width}>({name}, {r}, {address});"
            return f"tile::get_elements<{type_.c_name}, {width}>(&{name}[{r}], {address});"

        self.code.each(of.registers, text, source, width=width, writes=name)
        self.code.flush()
        return Ref("packed" if in_words else "array", name, operation.result.dtype)

    def _store_shared(self, operation: ir.StoreTile, spread: Spread) -> None:
        window, of, line = operation.window, self.of(spread), operation.source
        ref = self.ref(operation.value, spread)
        operand = ref.raw() if ref.kind == "array" else ref
        operand = (
            operand if operand.kind == "array" and operand.table is None else self._array(operand, of.registers, line)
        )
        self._synchronise(window.array, self.shared_read, line)
        self.shared_written.add(window.array.name)
        self._written = True
        leader = of.leader(self.distributions.warps)
        if leader:
            self._enter(f"if ({leader}) {{", line)
        self._elements(operand.name, window, of, "put_elements", line)
        if leader:
            self._leave()

    def _elements(self, name: str, window: ir.Window, of: Distribution, function: str, line: ir.Source) -> None:
        """Emit the copy of an array of registers to or from a window in shared memory, by the widest accesses."""
        array = window.array
        layout = exchange_layout(str(self.values[f"layout_{array.name}"]), array.matrix)
        starts = []
        for d in (0, 1):
            terms = [t for t in (window.at[d].code, self.coordinate(of, d)) if t != "0"]
            starts.append(" + ".join(terms) or "0")
        swapped = (1, 0) if window.turned else (0, 1)
        axes: tuple[Axis, Axis] = ("rows", "cols")
        most = WIDEST // array.dtype.bytes
        width = max(
            math.gcd(
                of.run(d),
                layout.contiguity(axes[swapped[d]]),
                window.at[d].divisor or most,
                window.shape[d],
                most,
            )
            for d in (0, 1)
        )
        registers = of.of_registers(0), of.of_registers(1)
        offset, bytes_, type_ = self.memory.shared[array.name], array.dtype.bytes, array.dtype.c_name

        def text(r: str) -> str:
            at = [f"{starts[d]} + {self.code.at(registers[d], r)}" for d in swapped]
            address = f"shared + {offset}u + {bytes_}u * unsigned({layout.c_name}::offset({', '.join(at)}))"
            arguments = f"{address}, &{name}[{r}]" if function == "put_elements" else f"&{name}[{r}], {address}"
            return f"tile::{function}<{type_}, {width}>({arguments});"

        self.code.each(of.registers, text, line, width=width, writes=name if function == "get_elements" else "")
        self.code.flush()
