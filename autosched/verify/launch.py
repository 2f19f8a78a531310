"""A launch under test, the common input of all verification plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from measurements.emulator import Emulation, Memory, Order, emulate, emulate_blocks, emulate_ptx, emulate_ptx_blocks
from measurements.emulator.inputs_file import InputsFile
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch


def _unchanged(emulation: Emulation) -> Emulation:
    return emulation


@dataclass(frozen=True, eq=False)
class LaunchUnderTest:
    """A launch to verify.

    Attributes:
        code: A generated kernel, or the text of a PTX module.
        inputs: Input arrays by operand name. If only some blocks run, the arrays may be larger than memory: ``inputs``
            is then a file of the arrays, or a seed that generates them (``measurements.emulator.sparse``).
        launch: Grid, block and operands of a PTX launch. None for a generated kernel, whose object contains them.
        memory: Addresses of the arrays of a PTX launch, and a map of their defined bytes.
        blocks: Blocks to run; None for all. For a generated kernel this requires ``inputs`` as a file or a seed.
        read: Function that post-processes an emulation, for example to drop findings on barriers that the compiler
            added.
    """

    code: GeneratedKernel | str
    inputs: Mapping[str, Array] | InputsFile | int
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
            perturb: If True, approximate instructions have the largest error that the PTX ISA allows.
            time_limit: CPU seconds.
            count: If True, executed PTX instructions are counted.

        Returns:
            The emulation. If ``inputs`` is a file or a seed, the emulation has ``elements`` instead of outputs.

        Raises:
            HostFailure: This machine cannot run the emulator.
            ValueError: Inputs do not fit the launch. Or ``inputs`` is a file or a seed, so only some blocks run, and
                ``launches`` exceeds 1 or ``perturb`` is True.
        """
        if not isinstance(self.inputs, Mapping):
            if launches > 1 or perturb:
                raise ValueError("a launch that runs only some of its blocks cannot be repeated or perturbed")
            return self.read(self._blocks(self.inputs, order, time_limit, count=count))
        if isinstance(self.code, GeneratedKernel):
            done = emulate(self.code, self.inputs, time_limit=time_limit, order=order, perturb=perturb, calls=launches)
        else:
            assert self.launch is not None, "PTX needs a launch"
            done = emulate_ptx(
                self.code, self.launch, self.inputs, time_limit=time_limit, order=order, perturb=perturb,
                calls=launches, memory=self.memory, count=count, blocks=self.blocks,
            )  # fmt: skip
        return self.read(done)

    def _blocks(self, inputs: InputsFile | int, order: Order, time_limit: float, *, count: bool) -> Emulation:
        assert self.blocks is not None, "inputs in a file or from a seed require a selection of blocks: set blocks"
        seed, file = (inputs, None) if isinstance(inputs, int) else (0, inputs)
        if isinstance(self.code, GeneratedKernel):
            return emulate_blocks(
                self.code, self.blocks, seed=seed, inputs=file, order=order, time_limit=time_limit, count=count
            )
        assert self.launch is not None and file is not None, (
            "to run only some blocks of PTX, pass launch= and a file of inputs"
        )
        return emulate_ptx_blocks(
            self.code, self.launch, self.blocks, file, order=order, time_limit=time_limit, count=count,
            memory=self.memory,
        )  # fmt: skip
