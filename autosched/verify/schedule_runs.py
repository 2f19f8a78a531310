"""The runs that verify a schedule, ordered so that likely faults are found first.

A quick verification is a few runs of a small problem. The first run has random inputs. Most of the other runs have
edge cases as inputs (or, for users' kernels, other random inputs), and execute warps and blocks in random order. A full
verification adds inputs, orders, a second launch on the same memory, and the same schedule at stress sizes. If the
requested problem is too large to emulate completely, a sample of its blocks is emulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from autosched.user_kernels import is_kernel_problem
from autosched.verify.emulated_size import EMULATED_BYTES, EMULATED_FLOPS
from autosched.verify.large_runs import cheap_large_runs, large_runs, stress_runs, true_runs
from autosched.verify.launch_limits import why_refused
from autosched.verify.other_sizes import runs_of_other_sizes
from autosched.verify.planned_run import PlannedRun
from autosched.verify.runs import (
    VerifySettings,
    refused,
    run_whole,
)
from autosched.verify.whole_runs import whole_runs
from measurements.emulator import ASCENDING
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import RANDOM, StressInputs
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

# limit for a problem without a smaller version, because its arrays and its reference must fit in memory
MOST_BYTES = 2**31


def emulated_problem(template: KernelTemplate, problem: Problem, schedule: Schedule) -> Problem:
    """Return ``problem`` if it is small, or else a version with few tiles of ``schedule`` and the same remainders."""
    small = problem.flops <= EMULATED_FLOPS and problem.min_bytes <= EMULATED_BYTES
    if small or template.proxy is None:
        return problem
    cut: Problem = template.proxy(problem, schedule)
    return cut


def runs_of_schedule(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
    kernel: GeneratedKernel,
) -> Iterator[PlannedRun]:
    """Return the planned runs that verify one schedule.

    Args:
        template: Generates the kernels.
        problem: Problem to compute. If it is large, a smaller version is emulated.
        schedule: Schedule to verify.
        device: GPU that kernels are generated for.
        settings: Depth, seed and limits.
        kernel: The kernel of the schedule for ``problem``.

    Returns:
        The named runs, in order. No run has been executed yet.

    Raises:
        ValueError: The schedule is invalid for ``problem``.
    """
    small = emulated_problem(template, problem, schedule)
    cut = template.kernel(small, schedule, device)
    return _runs(template, problem, kernel, small, cut, schedule, device, settings)


def runs_of_kernel(problem: Problem, kernel: GeneratedKernel, settings: VerifySettings) -> Iterator[PlannedRun]:
    """Return the runs that emulate all blocks of ``kernel`` for ``problem``, without runs at other sizes."""
    return chain(*whole_runs(problem, kernel, settings))


def _runs(
    template: KernelTemplate,
    problem: Problem,
    true: GeneratedKernel,
    small: Problem,
    cut: GeneratedKernel,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    why = why_refused(true, device, cut)
    if why:
        yield PlannedRun("launch limits", partial(refused, problem, settings.seed, why))
    if small == problem and not why and is_kernel_problem(problem):
        from autosched.verify.blocks_on_inputs import blocks_alone  # imported lazily: loads the reader of kernel files

        if (alone := blocks_alone(problem, true, settings)) is not None:
            yield from alone.planned()
            if alone.conclusive:
                if settings.depth == "full":
                    yield from large_runs(template, problem, small, schedule, device, settings)
                return
    first, rest = whole_runs(small, cut, settings)
    yield from first
    if small != problem and template.long_proxy is not None:
        longer = template.long_proxy(problem, schedule)
        if longer is not None:
            yield from chain(*whole_runs(longer, template.kernel(longer, schedule, device), settings))
    yield from runs_of_other_sizes(template, small, schedule, device, settings)
    if small != problem and problem.reduction_is_inferred:
        if settings.depth == "full":  # the smaller problem was only inferred, so the true size must run as well
            yield from _unreduced_runs(problem, true, settings)
    elif small != problem or settings.depth == "full":
        yield from true_runs(template, problem, true, small, schedule, device, settings)
    if settings.depth == "full":
        yield from large_runs(template, problem, small, schedule, device, settings)
    else:
        yield from stress_runs(template, small, schedule, device, settings, of_cases=True)
        if small != problem:
            yield from cheap_large_runs(template, small, cut, schedule, device, settings)
    yield from rest


def _unreduced_runs(problem: Problem, true: GeneratedKernel, settings: VerifySettings) -> Iterator[PlannedRun]:
    """Yield runs of a user's kernel at the true size.

    The runs emulate a sample of blocks, or all blocks if the sample is inconclusive.
    """
    from autosched.verify.blocks_on_inputs import blocks_alone

    if problem.min_bytes > MOST_BYTES:
        yield PlannedRun(
            "true size", None, "true size", f"the arrays take {problem.min_bytes:,} bytes, too many for the emulator"
        )
        return
    alone = blocks_alone(problem, true, settings) if is_kernel_problem(problem) else None
    if alone is not None:
        yield from alone.planned()
    if alone is None or not alone.conclusive:
        inputs = StressInputs((RANDOM,), problem.random_inputs(settings.seed))
        yield PlannedRun("true size", partial(run_whole, problem, true, inputs, ASCENDING, settings), "true size")
