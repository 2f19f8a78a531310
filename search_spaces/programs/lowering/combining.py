"""The second kernel of a split loop, in which one block per tile combines the partial results of several blocks."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.elements import Code
from search_spaces.programs.lowering.emit import Emitter
from search_spaces.programs.lowering.refs import register_type
from search_spaces.programs.planning.splits import PARTIALS
from search_spaces.spaces.config import Config


class CombiningEmitter(Emitter):
    """Emitter of the second kernel: it combines the partial results and executes the program after the split loop.

    Args:
        first: Emitter of the first kernel. Struct definitions that it generates precede both kernels.
        config: The schedule.
        device: The GPU.
    """

    def __init__(self, first: Emitter, config: Config, device: Device) -> None:
        super().__init__(first.inference, config, device)
        self.code = Code(prefix="combined_")
        self._of_first = first.structs

    def add_struct(self, text: str) -> None:
        """Put a definition before the second kernel, unless the first kernel has already added the same text."""
        if text not in self._of_first:
            super().add_struct(text)

    def run(self) -> None:
        """Generate the body of the second kernel."""
        assert self.split is not None
        operations, loop = self.inference.trace.operations, self.split.loop
        at = operations.index(loop)
        self._operations(needed_before(operations, at, self.split.states))
        for reduce in self.inference.sums.values():  # the first kernel has already combined partial sums across lanes
            if loop.number in self.inference.inside[reduce.result.id]:
                self.partial.pop(reduce.result.id, None)
        with self.code.default_source(loop.source):
            self._begin_with_first_part(loop)
        self._operations(operations[at + 1 :])
        self.finish()
        self.code.flush()

    def _begin_with_first_part(self, loop: ir.Loop) -> None:
        assert self.split is not None
        apart = sum(self._part_registers(self.split).values()) * self.distributions.warps * 32 * self.split.count
        self.code.add(
            f"const float* const parts = {PARTIALS} + static_cast<long long>(tile_place) * {apart};", loop.source
        )
        types = {o.state: o.value.dtype for o in ir.walk_body(loop.body) if isinstance(o, ir.Set)}
        for state in self.split.states:
            if state not in self.states:
                registers = self.of(self.inference.states[state]).registers
                self.states[state] = self.declare("state", register_type(types[state]), registers)
            self._get_part(state, self.states[state], "0", loop.source)


def needed_before(operations: tuple[ir.Operation, ...], at: int, combined: list[int]) -> tuple[ir.Operation, ...]:
    """Return the operations before the split loop whose results are used by code after the loop.

    Args:
        operations: Operations of the program.
        at: Index of the split loop in ``operations``.
        combined: States that the second kernel loads from partial results.
    """
    before, after = operations[:at], operations[at + 1 :]
    # A state that a loop or condition sets may depend on all operations in it.
    if any(isinstance(o, ir.Region) for o in before):
        return before
    values = {value.id for o in ir.walk_body(after) for value in ir.inputs(o)}
    states = {o.state for o in ir.walk_body(after) if isinstance(o, ir.Read)} - set(combined)
    needed_operations = list[ir.Operation]()
    for operation in reversed(before):
        needed = not isinstance(operation, ir.Prefetch)  # always keep scalars, as positions may depend on them
        if isinstance(operation, ir.Set):
            needed = operation.state in states
        elif isinstance(operation, ir.Computing):
            needed = operation.result.id in values
        if needed and isinstance(operation, ir.Read):
            states.add(operation.state)
        if needed:
            values |= {value.id for value in ir.inputs(operation)}
            needed_operations.append(operation)
    return tuple(reversed(needed_operations))
