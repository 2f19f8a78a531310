"""A launch under test: what every front end produces, and every plan runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from measurements.emulator import Emulation, Memory, Order, emulate, emulate_ptx
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch


def _unchanged(emulation: Emulation) -> Emulation:
    return emulation


@dataclass(frozen=True, eq=False)
class LaunchUnderTest:
    """A launch that is verified.

    Attributes:
        code: A generated kernel, or the text of a PTX module.
        inputs: The arrays that it reads, by the names of its operands.
        launch: Grid, block and operands of PTX; None for a generated kernel, which has its own.
        memory: Where the arrays of a PTX launch lie, and which of their bytes are defined.
        blocks: The only blocks of a PTX launch that run; None for all.
        read: Reads an emulation as the author of the code would, for example without a compiler's own barriers.
    """

    code: GeneratedKernel | str
    inputs: Mapping[str, Array]
    launch: Launch | None = None
    memory: Memory = field(default_factory=Memory)
    blocks: tuple[int, ...] | None = None
    read: Callable[[Emulation], Emulation] = _unchanged

    def run(
        self, order: Order, *, launches: int = 1, perturb: bool = False, time_limit: float = 60.0, count: bool = False
    ) -> Emulation:
        """Emulate the launch once.

        Args:
            order: Order of blocks and threads.
            launches: Number of back-to-back launches on the same memory.
            perturb: Whether approximate instructions err as much as the PTX ISA allows.
            time_limit: CPU seconds.
            count: Whether the executed instructions of PTX are counted.

        Returns:
            The emulation.

        Raises:
            HostFailure: This machine cannot emulate.
            ValueError: Inputs that do not fit the launch.
        """
        if isinstance(self.code, GeneratedKernel):
            done = emulate(self.code, self.inputs, time_limit=time_limit, order=order, perturb=perturb, calls=launches)
        else:
            assert self.launch is not None, "PTX needs a launch"
            done = emulate_ptx(
                self.code, self.launch, self.inputs, time_limit=time_limit, order=order, perturb=perturb,
                calls=launches, memory=self.memory, count=count, blocks=self.blocks,
            )  # fmt: skip
        return self.read(done)
