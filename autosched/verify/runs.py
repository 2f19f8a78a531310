"""Make one run of a verification: emulate a launch and compare its outputs with the float64 reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from autosched import blas
from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import TIME_LIMIT, LaunchRun
from autosched.verify.launches import compared, ended
from autosched.verify.reference import Reference
from autosched.verify.run import FAILED_LAUNCH, Depth, Run
from autosched.verify.sampled_blocks import QUICK_SHARE, verify_blocks
from measurements.emulator import ASCENDING, Emulation, Order, Suppression, emulate
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import RANDOM, StressInputs
from search_spaces.operators.problem import Problem

LIMIT_TEXT = f"an emulated launch may take {TIME_LIMIT:.0f} CPU seconds"

# a function that runs a launch, with the arguments kernel, inputs, time_limit and order
Execute = Callable[..., Emulation]


@dataclass(frozen=True)
class VerifySettings:
    """Settings of a schedule's verification.

    Attributes:
        depth: "quick" or "full".
        seed: Seed of the inputs.
        time_limit: Limit of each emulated launch in CPU seconds.
        budget: Seconds after which no further run starts; the first run always starts. None: no limit.
        launch: Order, number of launches and perturbation of a second run on the random inputs. None: no such run.
        suppressions: Expected findings.
        execute: Function that runs all blocks of a launch.
        batch_invariant: If True, further runs verify that each row has the same bits in every batch.
    """

    depth: Depth = "quick"
    seed: int = 0
    time_limit: float = TIME_LIMIT
    budget: float | None = None
    launch: LaunchRun | None = None
    suppressions: tuple[Suppression, ...] = ()
    execute: Execute = emulate
    batch_invariant: bool = False

    @property
    def emulates(self) -> bool:
        """True if ``execute`` is the emulator.

        Only the emulator can perturb approximate instructions, or launch twice on the same memory.
        """
        return self.execute is emulate


def stress_inputs(problem: Problem, seed: int) -> Iterator[StressInputs]:
    """Yield the problem's edge-case inputs. BLAS runs with a single thread while inputs are generated."""
    sets = problem.stress_inputs(seed)
    while True:
        with blas.single_thread():
            inputs = next(sets, None)
        if inputs is None:
            return
        yield inputs


def run_whole(
    problem: Problem,
    kernel: GeneratedKernel,
    inputs: StressInputs,
    order: Order,
    settings: VerifySettings,
    *,
    seed: int | None = None,
    launches: int = 1,
    perturb: bool = False,
    limit: float | None = None,
    keep_outputs: bool = False,
    same_as: Mapping[str, Array] | None = None,
) -> Run:
    """Launch ``kernel`` on inputs and compare all its outputs.

    Args:
        problem: Provides the reference and the tolerances.
        kernel: Kernel to launch.
        inputs: The inputs and the names of their cases.
        order: Order of blocks and threads.
        settings: Defaults of the following options.
        seed: Seed of the inputs, for the result.
        launches: Number of back-to-back launches on the same memory.
        perturb: If True, approximate instructions have the largest error that the PTX ISA allows.
        limit: CPU seconds of the launch.
        keep_outputs: If True, the result keeps the arrays.
        same_as: Outputs of an earlier run on the same inputs, which must be equal bit by bit.

    Returns:
        The run. Its status is ``wrong_result`` if the outputs are wrong.

    Raises:
        HostFailure: This machine cannot run the emulator.
    """
    seed = settings.seed if seed is None else seed
    limit = limit or settings.time_limit
    if settings.emulates or launches > 1 or perturb:
        under_test = LaunchUnderTest(kernel, inputs.inputs)
        done = under_test.run(order, launches=launches, perturb=perturb, time_limit=limit)
    else:
        done = settings.execute(kernel, inputs.inputs, time_limit=limit, order=order)
    plain = inputs.cases == (RANDOM,)
    verdict = compared(
        LaunchRun("", order, launches, perturb), done, Reference(problem, inputs.inputs, same_as or {}, absolute=plain)
    )
    reason, outputs = verdict.reason, done.outputs if keep_outputs else {}
    if ended(done) and verdict.status != "ok":
        provoked = "" if plain else f"on inputs {', '.join(inputs.cases)}"
        turned = "" if order == ASCENDING else f"blocks {order.name}"
        reason = "; ".join(text for text in (reason, provoked, turned) if text)
    return replace(
        verdict, problem=problem, cases=inputs.cases, seed=seed, reason=reason, outputs=outputs,
        emulation=done.without_arrays(),
    )  # fmt: skip


def rerun(
    problem: Problem,
    kernel: GeneratedKernel,
    inputs: StressInputs,
    launch: LaunchRun,
    settings: VerifySettings,
    same_as: Mapping[str, Array] | None = None,
) -> Run:
    """Run the random inputs of a first run again, as ``launch`` specifies.

    Args:
        problem: Provides the reference.
        kernel: Kernel to launch. A kernel that computes in place is launched only once.
        inputs: The inputs.
        launch: The order, and the number of launches on the same memory.
        settings: Seed and limits. The time limit applies to each launch.
        same_as: Outputs of the first run, which must be equal bit by bit; None skips this comparison.

    Returns:
        The run.
    """
    # If the kernel computes in place, a second launch would read the results of the first launch as its inputs.
    calls = 1 if any(o.role == "inout" for o in kernel.operands) else launch.launches
    run = run_whole(
        problem, kernel, inputs, launch.order, settings, launches=calls, perturb=launch.perturb,
        limit=calls * settings.time_limit, same_as=same_as,
    )  # fmt: skip
    times = f"; launched {calls} times" if run.reason and calls > 1 else ""
    return replace(run, reason=run.reason + times)


def run_fewer_blocks(
    problem: Problem, kernel: GeneratedKernel, inputs: StressInputs, order: Order, settings: VerifySettings
) -> Run:
    """Launch ``kernel`` with fewer blocks than planned, as on a GPU that is partly in use.

    Args:
        problem: Provides the reference.
        kernel: Kernel with the smaller grid.
        inputs: The inputs.
        order: Order of blocks and threads.
        settings: Limits.

    Returns:
        The run. The reason of a failure states the number of blocks.
    """
    run = run_whole(problem, kernel, inputs, order, settings)
    return replace(run, reason=f"{run.reason}; with only {kernel.grid[0]} blocks" if run.reason else "")


def run_perturbed(
    problem: Problem, kernel: GeneratedKernel, inputs: StressInputs, seed: int, settings: VerifySettings
) -> Run:
    """Run a kernel whose approximate instructions have the largest error that the PTX ISA allows.

    Args:
        problem: Provides the reference.
        kernel: Kernel to launch.
        inputs: The inputs.
        seed: Seed of the inputs, for the result.
        settings: Limits.

    Returns:
        The run.
    """
    run = run_whole(problem, kernel, inputs, ASCENDING, settings, seed=seed, perturb=True)
    reason = f"{run.reason}; with approximate functions at their largest error" if run.reason else ""
    return replace(run, reason=reason)


def run_sampled(problem: Problem, kernel: GeneratedKernel, settings: VerifySettings, walked: bool = False) -> Run:
    """Run some blocks of a launch if emulating all blocks would take too long.

    ``walked`` is True if a separate run (the tile walk) checks that the tiles of all blocks cover the output.
    """
    share = 1.0 if settings.depth == "full" else QUICK_SHARE
    run = verify_blocks(problem, kernel, settings.seed, limit=settings.time_limit, share=share, walked=walked)
    if run.status == "ok":
        return run
    return replace(run, reason=f"{run.reason}; {run.blocks} blocks of {' '.join(str(problem.to_json()).split())}")


def refused(problem: Problem, seed: int, reason: str) -> Run:
    """Return a failed run, without emulation, for a launch that exceeds the device's limits."""
    nothing = Emulation("unsupported", {}, (), (), (), reason=reason)
    return Run(problem, (), seed, ASCENDING, None, FAILED_LAUNCH, reason, None, None, nothing)
