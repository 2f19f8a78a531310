"""Emit loops, with or without a ring of stages: the iterations, and the code after the last iteration."""

from __future__ import annotations

from collections.abc import Sequence

from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_base import EarlyLoads
from search_spaces.programs.lowering.emit_boxes import by_kind
from search_spaces.programs.lowering.emit_splits import SharedLoops
from search_spaces.programs.lowering.refs import register_type
from search_spaces.programs.lowering.staged_positions import copy_type, position_code
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.splits import combining_loop
from search_spaces.programs.planning.staging import StagedNumbers
from search_spaces.programs.planning.tails import without_last_iteration
from search_spaces.programs.planning.unrolling import unroll_of
from search_spaces.programs.planning.wmma import loop_to_read_after


class PipelinedLoops(SharedLoops):
    """Emitter of loops."""

    def _operations(self, operations: tuple[ir.Operation, ...]) -> None:
        """Emit operations (implemented in ``Emitter``)."""
        raise NotImplementedError

    def _loop(self, loop: ir.Loop) -> None:
        ring, boxes = by_kind([n for n in self.staged.values() if n.staged.loop == loop.number])
        split, count = self.split, self.count_of(loop)
        for line in self.share_lines(loop, count):
            self.code.add(line, loop.source)
        if self.shares(loop):
            count = "own_turns"
            if split is not None and split.keeps_last:
                self._take_ticket(split, loop.source)
        elif split is not None and split.launched:
            count = "part.count"
        elif split is not None and not split.combined:
            count = f"(first_turn + {split.each} < {split.iterations} ? {split.each} : {split.iterations} - first_turn)"
        for operation in loop.body:  # states that are first set in the loop are declared before it
            if isinstance(operation, ir.Set) and operation.state not in self.states:
                type_, registers = (
                    register_type(operation.value.dtype),
                    self.of(self.inference.states[operation.state]).registers,
                )
                self.states[operation.state] = self.declare("state", type_, registers)
        outside, self.loop = self.loop, self._exchanging_in(loop, [*ring, *boxes])
        self.loops += 1
        if ring or boxes:
            if boxes and self.ahead is not None:
                ahead = self.ahead
                boxes.sort(key=lambda n: not self._is_copied_ahead(n, ahead))
                self._box_ring(loop, boxes, count)
                self._ahead_iterations(ahead, boxes)
            elif boxes:
                self._box_ring(loop, boxes, count)
                self._iterations(loop, boxes)
                if self.launched:
                    self.code.add(f"begun_{loop.number} += turns_of_{loop.number};", loop.source)
                if self.sums_stay:
                    self._read_tensor(loop, count)
                if self.phases is not None:
                    self.code.add("tile::end_turns(warp / 4);", loop.source)
            else:
                self._ring(loop, ring, count)
        else:
            self._plain_iterations(loop, count)
        self.loops -= 1
        self.loop = outside
        if split is not None and not split.combined:
            self._join_splits(split, loop.source)
        if self.wmma:
            self._read_sums_after(loop)
        for state, reduce in self.inference.sums.items():
            if loop.number in self.inference.inside[reduce.result.id] and reduce.result.id in self.partial:
                source = self.of(self.inference.sources[reduce.result.id])
                self._join(self.states[state], reduce, source, reduce.source)
                del self.partial[reduce.result.id]
        if split is not None and self.shares(loop):
            self._join_splits(split, loop.source)

    def _exchanging_in(self, loop: ir.Loop, ring: Sequence[StagedNumbers | BoxedNumbers]) -> int | None:
        """Return the number of the loop whose exchange memory ``loop`` uses; None for the memory used outside of loops.

        An inner loop without a ring uses the exchange memory of the enclosing loop. The loop that combines the partial
        results of a split loop counts as code outside of loops, as in ``estimates.outermost``.
        """
        if self.loop is None and loop.number == combining_loop(self.inference):
            return None
        return loop.number if self.loop is None or ring else self.loop

    def _plain_iterations(self, loop: ir.Loop, count: str) -> None:
        """Emit a loop without a ring."""
        counter, first, end = f"turn_{loop.number}", "0", count
        if self.shares(loop):
            first, end = "first_turn", f"first_turn + {count}"
        if loop.number in self.peeled:
            self.code.add(f"const int last_{counter} = {end} - 1;", loop.source)
            self._unroll(loop)
            self._enter(f"for (int {counter} = {first}; {counter} < last_{counter}; ++{counter}) {{", loop.source)
            self._but_the_last(loop)
            self._leave()
            self._enter(
                f"for (int {counter} = max(last_{counter}, {first}); {counter} <= last_{counter}; ++{counter}) {{",
                loop.source,
            )
        else:
            self._unroll(loop)
            self._enter(f"for (int {counter} = {first}; {counter} < {end}; ++{counter}) {{", loop.source)
        self._operations(loop.body)
        self._leave()

    def _unroll(self, loop: ir.Loop) -> None:
        count = unroll_of(self.inference, self.values, loop.number)
        if count is not None:
            self.code.add(f"#pragma unroll {count}")

    def _read_sums_after(self, loop: ir.Loop) -> None:
        """Emit, after a loop, the conversion of sums that wmma has accumulated in the loop."""
        for operation in loop.body:
            definition = self.inference.definitions[operation.value.id] if isinstance(operation, ir.Set) else None
            if (
                isinstance(operation, ir.Set)
                and isinstance(definition, ir.Mma)
                and loop_to_read_after(self.inference, definition) is not None
            ):
                self._read_sums(definition, self.states[operation.state])

    def _ring(self, loop: ir.Loop, ring: list[StagedNumbers], count: str) -> None:
        types = ", ".join(copy_type(n) for n in ring)
        initializer = "{}"
        for n in ring:
            for line in position_code(self, n):
                self.code.add(line, loop.source)
        for n in reversed(ring):
            initializer = f"{{{self._copy(n.staged)}, {initializer}}}"
        bytes_ = sum(n.bytes for n in ring)
        self.add_struct(
            f"struct Ring_{loop.number} {{\n  static constexpr int stages = {self.stages[loop.number]}, "
            f"stage_bytes = {bytes_};\n}};\n"
        )
        if self._written:
            self.code.add(f"{self.barrier}  // everybody is done with what lies here")
        self._written = True
        name, position = f"Ring_{loop.number}", self.memory.rings[loop.number]
        if self.early:
            self.early_loads = EarlyLoads(name, position, f"tile::Loads<{types}>{initializer}")
            self.code.add(f"auto loads_{loop.number} = loads_of(part, {name}::stages - 1);", loop.source)
        else:
            self.code.add(f"tile::Loads<{types}> loads_{loop.number}{initializer};", loop.source)
        arguments = f"(loads_{loop.number}, shared + {position}u, {count}, "
        if loop == self.buffered:
            self._buffered_iterations(loop, ring, arguments)
            return
        body = f"[&](unsigned stage, {self.iteration_parameter(loop)}) {{"
        begun = ", true" if self.early else ""
        self._enter(f"tile::pipeline<{name}{begun}>{arguments}{body}", loop.source)
        self._iterations(loop, ring)

    def _buffered_iterations(self, loop: ir.Loop, ring: list[StagedNumbers], arguments: str) -> None:
        """Emit a loop with double-buffered fragments: fragments of the next step are read during a multiplication."""
        steps, reads, multiplies = self._buffer_fragments(loop)
        types = (
            f"Ring_{loop.number}, {steps}, {str(loop.number in self.peeled).lower()}{', true' if self.early else ''}"
        )
        self._enter(
            f"tile::fragment_pipeline<{types}>{arguments}[&](unsigned stage, int step, int buffer) {{", loop.source
        )
        self._stage(ring)
        for line in reads:
            self.code.add(line)
        self._leave("},")
        self._enter("[&](int buffer) {", loop.source)
        for line, source in multiplies:
            self.code.add(line, source)
        self._leave("});")

    def _iterations(self, loop: ir.Loop, ring: Sequence[StagedNumbers | BoxedNumbers]) -> None:
        """Emit the body of a loop with a ring."""
        self.add_iteration(loop)
        if loop.number in self.peeled:
            self._stage(ring)
            self._but_the_last(loop)
            self._leave("},")
            self._enter(f"[&](unsigned stage, {self.iteration_parameter(loop)}) {{", loop.source)
            self.add_iteration(loop)
        self._stage(ring)
        if (self.values.get("in_flight", 0) and self.boxed) or self.sums_stay:
            self._in_flight_iterations(loop)
            return
        self._operations(loop.body)
        self._leave("});")

    def _stage(self, ring: Sequence[StagedNumbers | BoxedNumbers]) -> None:
        offset = 0
        for n in ring:
            self.code.add(f"const unsigned tile_{n.staged.name} = stage + {offset}u;")
            offset += n.bytes

    def _but_the_last(self, loop: ir.Loop) -> None:
        """Emit all iterations of a peeled loop except the last one. They need fewer bounds checks than the last one."""
        iterations, stores = self.iterations, self.stores
        self.iterations = without_last_iteration(iterations, loop.number)
        self._operations(loop.body)
        self.finish()
        self.iterations, self.stores = iterations, stores
