"""Emit loops whose first product is computed one iteration ahead (``planning/products_ahead.py``)."""

from __future__ import annotations

from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_products import Products
from search_spaces.programs.lowering.refs import Ref
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.products_ahead import Ahead


class ProductsAhead(Products):
    """Emitter of loops whose first product is computed one iteration ahead."""

    def _operations(self, operations: tuple[ir.Operation, ...]) -> None:
        """Emit operations (implemented in ``Emitter``)."""
        raise NotImplementedError

    def _stage(self, ring: list[BoxedNumbers]) -> None:
        """Emit the addresses of the tiles of a stage (implemented in ``PipelinedLoops``)."""
        raise NotImplementedError

    def _is_copied_ahead(self, n: BoxedNumbers, ahead: Ahead) -> bool:
        """Return True if the operand is the right operand of the loop's first product."""
        value = self.inference.definitions[ahead.first.b.id]
        source = value.value if isinstance(value, ir.TransposeTile) else ahead.first.b
        return n.staged.load.result.id == source.id

    def _first_product_of_loop(self, ahead: Ahead, ring: list[BoxedNumbers], call: str) -> None:
        """Emit the head of the loop, with a function that computes the first product of iteration 0."""
        loop, first = ahead.loop, ahead.first
        spread = self.inference.natural[first.result.id]
        self._ahead_array = self.declare("acc", "float", self.of(spread).registers)
        self._enter(f"{call}[&](unsigned stage) {{", loop.source)
        self._stage(ring[:1])
        self._operations(_copies_of(loop, first))
        array = self.declare("acc", "float", self.of(spread).registers)
        line, source = self._box_call(first, array)
        self.code.add("ptx::wgmma_fence();", source)
        self.code.add(line, source)
        self.code.add("ptx::wgmma_commit_group();")
        self.code.add("ptx::wgmma_wait_group<0>();")
        self._take_ahead(array, self.of(spread).registers, source)
        self._leave("},")
        self._enter(
            f"[&](auto more, unsigned stage, {self.iteration_parameter(loop)}, const auto& ready) {{", loop.source
        )

    def _ahead_iterations(self, ahead: Ahead, ring: list[BoxedNumbers]) -> None:
        """Emit an iteration: operations before the last product, two multiplications, and the remaining operations.

        The two multiplications, of the last product and of the next iteration's first product, are in flight together.

        The last product accumulates in the registers of the state. No other operation uses these registers while the
        product is in flight.
        """
        loop, first, last = ahead.loop, ahead.first, ahead.last
        self.add_iteration(loop)
        self._stage(ring)
        at = loop.body.index(last)
        own = self.inference.natural[first.result.id]
        registers = self.of(own).registers
        for operation in loop.body[:at]:
            with self.code.default_source(operation.source):
                if operation is first:
                    self.refs[first.result.id, own] = Ref("array", self._ahead_array, first.result.dtype)
                    self._convert_all(first)
                elif not (isinstance(operation, ir.Computing) and operation.result.id in ahead.late):
                    self._operations((operation,))
        state, of_state = self.states[ahead.state], self.inference.natural[last.result.id]
        count = self.of(of_state).registers
        self.code.add("ready();", last.source)
        self._hold(state, count, last.source)
        self._operations(tuple(o for o in loop.body[:at] if isinstance(o, ir.Computing) and o.result.id in ahead.late))
        line, source = self._box_call(last, state)
        assert last.c is not None
        addend = self.ref(last.c, of_state)
        self.code.each(
            count,
            lambda r: f"{state}[{r}] = {addend.text(self.code, r)};",
            source,
            writes=state,
            scattered=addend.scattered,
        )
        self._hold(state, count, source)
        array = self.declare("acc", "float", registers)
        ahead_line, _ = self._box_call(first, array)  # this call may emit a copy of the left operand
        self.code.flush()
        self.code.add("ptx::wgmma_fence();", source)
        self.code.open("if constexpr (more.value) {", first.source)
        self.code.add(ahead_line, first.source)
        self.code.add("ptx::wgmma_commit_group();")
        self.code.close()
        self.code.add(line, source)
        self.code.add("ptx::wgmma_commit_group();", source)
        self._operations(tuple(o for o in loop.body[at + 1 :] if not _sets(o, ahead)))
        self.code.open("if constexpr (more.value) {", first.source)
        self.code.add("ptx::wgmma_wait_group<1>();", first.source)
        self._take_ahead(array, registers, first.source)
        self.code.close()
        self._leave("});")
        self._hold(state, count, loop.source)
        self.code.flush()

    def _take_ahead(self, array: str, count: int, source: ir.Source) -> None:
        """Emit the copy of the next iteration's first product to the array that the next iteration reads.

        The product is computed in a second array. With a single array, the product would overwrite this iteration's
        result while it is still used.
        """
        name = self._ahead_array
        self._hold(array, count, source)
        self.code.each(count, lambda r: f"{name}[{r}] = {array}[{r}];", source, writes=name)
        self.code.flush()

    def _convert_all(self, operation: ir.Computing) -> None:
        """Convert a result to all distributions in which it is used (implemented in ``Emitter``)."""
        raise NotImplementedError


def _sets(operation: ir.Operation, ahead: Ahead) -> bool:
    return isinstance(operation, ir.Set) and operation.state == ahead.state


def _copies_of(loop: ir.Loop, first: ir.Mma) -> tuple[ir.Operation, ...]:
    """Return the operations that load and transpose the right operand of a loop's first product."""
    wanted, chosen = {first.b.id}, list[ir.Operation]()
    for operation in reversed(loop.body):
        if isinstance(operation, ir.LoadTile | ir.TransposeTile) and operation.result.id in wanted:
            wanted |= {value.id for value in ir.inputs(operation)}
            chosen.append(operation)
    return tuple(reversed(chosen))
