"""Verify a sample of the blocks of a user's kernel if emulating all blocks would take too long.

The blocks run at the true size, on the problem's own inputs. Their outputs are compared with the reference.

This also works for sources with fixed sizes, for which no smaller problem exists. The problem needs a reference
function, and the blocks must be independent. If blocks add to the same element atomically, or wait for each other, all
blocks are emulated.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from autosched import blas
from autosched.user_kernels.problem import KernelProblem
from autosched.verify.block_choice import SampleLimits, chosen_blocks, seconds_of_block
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import LaunchRun
from autosched.verify.launches import compared, ended
from autosched.verify.oracle import UNVERIFIED, Comparison
from autosched.verify.orders import all_orders, quick_orders
from autosched.verify.planned_run import PlannedRun
from autosched.verify.run import Run
from autosched.verify.runs import VerifySettings
from measurements.emulator import Emulation, FindingKind, Order, emulate_blocks
from measurements.emulator.findings import WrittenElements
from measurements.emulator.inputs_file import InputsFile
from measurements.trials.comparison import compare
from search_spaces.arrays import FloatArray
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import RANDOM

WHOLE_SECONDS = 10.0  # CPU seconds: if emulating all blocks takes less, no sample is used
MOST_BYTES = 2**31  # maximum size of the inputs, which are stored in one file
# number of blocks: smaller launches are emulated in full, without timing a block first
_SMALL_BYTES, _SMALL_THREADS = 2**22, 2**17
_SECONDS = {"quick": 4.0, "full": 20.0}  # CPU seconds for the blocks of one run
_MOST, _FEWEST = 48, 4  # maximum and minimum number of blocks in a run
# time limit of the search for blocks that write more elements, in CPU seconds
_SEARCH_SECONDS = {"quick": 10.0, "full": 60.0}
# limits of this search: elements written by the blocks that run together, and blocks of the grid
_SEARCH_ELEMENTS, _SEARCH_BLOCKS = 2**24, 2**22
_ATOMICS = ("atom", "red")  # opcodes of atomics: a kernel that uses them may have blocks that depend on each other
_ENDS = (FindingKind.DEADLOCK, FindingKind.BARRIER_NOT_REACHED)


def blocks_alone(problem: KernelProblem, kernel: GeneratedKernel, settings: VerifySettings) -> BlocksAlone | None:
    """Return runs that emulate a sample of the blocks, as a replacement for runs that emulate all blocks.

    Args:
        problem: Problem that the kernel computes.
        kernel: The launch.
        settings: Depth, seed and limits.

    Returns:
        The runs. None if all blocks can be emulated, or if a sample of blocks cannot be verified without the other
        blocks.

    Raises:
        HostFailure: This machine cannot run the emulator.
        KernelFileError: The problem's inputs cannot be created.
    """
    threads = math.prod(kernel.grid) * math.prod(kernel.block)
    if not problem.computed_by_function or not settings.emulates:
        return None
    if kernel.then:  # in a pipeline, each launch needs all outputs of the previous launches
        return None
    if problem.min_bytes > MOST_BYTES or (problem.min_bytes <= _SMALL_BYTES and threads <= _SMALL_THREADS):
        return None
    total, inputs = math.prod(kernel.grid), _inputs(problem, settings.seed)
    seconds = seconds_of_block(
        lambda blocks: emulate_blocks(kernel, blocks, inputs=inputs, check=False, time_limit=settings.time_limit), total
    )
    if seconds is None:
        return None
    most = SampleLimits(WHOLE_SECONDS, _SECONDS[settings.depth], _FEWEST, _MOST).blocks(total, seconds)
    return None if most is None else BlocksAlone(problem, kernel, settings, most)


@dataclass
class BlocksAlone:
    """Runs of some blocks, one run for each order. Every run includes the blocks at the edges of the grid.

    Attributes:
        problem: Problem that the kernel computes.
        kernel: The launch.
        settings: Depth, seed and limits.
        most: Number of blocks of a run.
        conclusive: False once a run has shown that the sampled blocks cannot be verified without the other blocks.
    """

    problem: KernelProblem
    kernel: GeneratedKernel
    settings: VerifySettings
    most: int
    conclusive: bool = True

    def planned(self) -> Iterator[PlannedRun]:
        """Yield the runs until one is inconclusive."""
        seed = self.settings.seed
        for i, order in enumerate(all_orders(seed) if self.settings.depth == "full" else quick_orders(seed)):
            if self.conclusive:
                yield PlannedRun("some blocks", partial(self._run, i, order), "true size")

    def _run(self, i: int, order: Order) -> Run | None:
        problem, kernel, settings = self.problem, self.kernel, self.settings
        blocks = chosen_blocks(kernel.grid, self.most, settings.seed + i)
        launch = LaunchUnderTest(kernel, _inputs(problem, settings.seed), blocks=blocks)
        done = launch.run(order, time_limit=settings.time_limit)
        oracle = ReferenceOfBlocks(problem, kernel, blocks, settings)
        run = None if _waits_or_adds(done) else compared(LaunchRun("", order), done, oracle, len(blocks))
        if run is None or run.status == UNVERIFIED:
            self.conclusive = False
            return None
        where = f"; {len(blocks)} of {math.prod(kernel.grid)} blocks" if ended(done) and run.status != "ok" else ""
        return replace(
            run, problem=problem, cases=(RANDOM,), seed=settings.seed, reason=run.reason + where,
            emulation=done.without_arrays(),
        )  # fmt: skip


def _inputs(problem: KernelProblem, seed: int) -> InputsFile:
    with _ONE_AT_A_TIME:
        return _cached_inputs(problem, seed)


def _expected(problem: KernelProblem, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return the reference values and the tolerances of each output."""
    with _ONE_AT_A_TIME:
        return _cached_reference(problem, seed)


# Candidates with the same inputs are verified in parallel. The lock makes sure that the values below are computed only
# once.
_ONE_AT_A_TIME = threading.Lock()


@lru_cache(maxsize=1)
def _cached_inputs(problem: KernelProblem, seed: int) -> InputsFile:
    return InputsFile(problem.random_inputs(seed))


@lru_cache(maxsize=1)
def _cached_reference(problem: KernelProblem, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    with blas.single_thread():
        return problem.expected(problem.random_inputs(seed))


@dataclass(frozen=True)
class ReferenceOfBlocks:
    """Oracle that compares the elements written by some blocks with the problem's reference.

    Attributes:
        problem: Provides the reference and the tolerances.
        kernel: The launch.
        blocks: Blocks that ran.
        settings: Seed of the inputs, and the depth.
    """

    problem: KernelProblem
    kernel: GeneratedKernel
    blocks: tuple[int, ...]
    settings: VerifySettings

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the written elements. The status is ``unverified`` if the sample is not sufficient for a verdict."""
        reference, tolerance = _expected(self.problem, self.settings.seed)
        elements = emulation.elements
        writers = {block for written in elements.values() for block in np.unique(written.blocks).tolist()}
        if not writers.issuperset(self.blocks):
            return Comparison(None, "a block wrote nothing, which may be correct or a fault", status=UNVERIFIED)
        wrong = _missing_of_all(self.problem, self.kernel, elements, self.blocks, self.settings)
        if wrong is None:
            return Comparison(
                None, "too little time to find out whether all blocks together write the output", status=UNVERIFIED
            )
        worst, error = 0.0, 0.0
        for output in (o for o in self.kernel.operands if o.role in ("output", "inout")):
            written = elements[output.name]
            if not written.positions.size:
                continue
            expected = np.broadcast_to(reference[output.name], output.shape).reshape(-1)[written.positions]
            allowed = np.broadcast_to(tolerance[output.name], output.shape).reshape(-1)[written.positions]
            rounded_to = self.problem.reference_dtype(output.name)
            comparison = compare(output.name, output.dtype, written.values, expected, allowed, rounded_to=rounded_to)
            apart = np.abs(output.dtype.load(written.values) - expected)
            worst, error = (
                max(worst, comparison.worst),
                max(error, float(np.where(np.isnan(apart), np.inf, apart).max())),
            )
            if not comparison.ok and not wrong:
                at = [int(i) for i in np.unravel_index(int(written.positions[0]), output.shape)]
                wrong = (
                    f"in the elements written by the emulated blocks, from {output.name}{at} on: {comparison.reason}"
                )
        return Comparison(worst, wrong, error)


def _most_written(kernel: GeneratedKernel, written: Mapping[str, WrittenElements]) -> dict[str, int]:
    """Return, for each output that must be written, the maximum number of elements that one block wrote."""
    outputs = [o.name for o in kernel.operands if o.role == "output"]
    counts = {name: np.unique(written[name].blocks, return_counts=True)[1] for name in outputs}
    return {name: int(of_blocks.max(initial=0)) for name, of_blocks in counts.items()}


def _missing(kernel: GeneratedKernel, most: Mapping[str, int]) -> str:
    """Return a reason if all blocks together, with ``most`` elements each, cannot write all of an output, else ""."""
    grid = math.prod(kernel.grid)
    for output in (o for o in kernel.operands if o.name in most):
        if most[output.name] * grid < output.size:
            return (
                f"no block writes more than {most[output.name]} elements of {output.name}, so the {grid} blocks "
                f"cannot write all {output.size} elements"
            )
    return ""


def _missing_of_all(
    problem: KernelProblem,
    kernel: GeneratedKernel,
    written: Mapping[str, WrittenElements],
    blocks: Sequence[int],
    settings: VerifySettings,
) -> str | None:
    """Return a reason if the blocks of the grid cannot fill an output, "" if they can, None if time ran out.

    Blocks may write different numbers of elements, so further blocks run until one of them writes enough elements, or
    until all blocks have run.
    """
    most, grid = _most_written(kernel, written), math.prod(kernel.grid)
    if not _missing(kernel, most):
        return ""
    if grid > _SEARCH_BLOCKS:
        return None
    unchecked = np.setdiff1d(np.arange(grid), blocks)
    unchecked = np.random.default_rng((settings.seed, 4)).permutation(unchecked)
    count, remaining = _MOST, _SEARCH_SECONDS[settings.depth]
    while _missing(kernel, most) and unchecked.size:
        some, unchecked = unchecked[:count].tolist(), unchecked[count:]
        done = emulate_blocks(kernel, some, inputs=_inputs(problem, settings.seed), time_limit=remaining)
        remaining -= done.run_seconds
        if not ended(done) or remaining < 0:
            return None
        num_written = _most_written(kernel, done.elements)
        most = {name: max(n, num_written[name]) for name, n in most.items()}
        count = min(2 * count, max(_MOST, _SEARCH_ELEMENTS // max(1, *num_written.values())))
    return _missing(kernel, most)


def _waits_or_adds(emulation: Emulation) -> bool:
    """Return True if blocks depend on each other: a block waits for another, or several add to the same element."""
    waits = any(finding.kind in _ENDS for finding in emulation.findings)
    return waits or any(site.instruction.startswith(_ATOMICS) for site in emulation.global_sites)
