"""Which runs a verification consists of, by name and in order, the likeliest faults first.

A quick verification is a few runs of a small problem: on random inputs, and on edge-case inputs with warps and blocks
in random order. A full one adds inputs, orders, a second launch on the memory that the first one left, some blocks of
the problem itself where that is too large to be emulated whole, and the same schedule at stress sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from autosched.verify.large_runs import cheap_large_runs, large_runs, stress_runs, true_runs
from autosched.verify.launch_limits import why_refused
from autosched.verify.planned_run import EMULATED_BYTES, EMULATED_FLOPS, Plan, PlannedRun
from autosched.verify.run import Run
from autosched.verify.runs import (
    RANDOM,
    VerifySettings,
    refused,
    run_whole,
)
from autosched.verify.whole_runs import whole_runs
from measurements.emulator import ASCENDING
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

MOST_BYTES = 2**31  # of a problem that no proxy cuts: its arrays, and those of its reference, are held at once


def emulated_problem(template: KernelTemplate, problem: Problem, schedule: Schedule) -> Problem:
    """``problem`` if it is small, else cut to a few tiles of ``schedule`` with the same remainders."""
    small = problem.flops <= EMULATED_FLOPS and problem.min_bytes <= EMULATED_BYTES
    if small or template.proxy is None:
        return problem
    cut: Problem = template.proxy(problem, schedule)
    return cut


def plan(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device, settings: VerifySettings
) -> Plan:
    """Return the verification of one schedule: which runs it has, of which none has been made.

    Args:
        template: Generates the kernels.
        problem: What is computed; where it is large, a smaller one is emulated whole.
        schedule: What is verified.
        device: The GPU that kernels are generated for.
        settings: Depth, seed and limits.

    Returns:
        The named runs, in the order in which they are made.

    Raises:
        ValueError: The schedule is none for ``problem``.
    """
    small = emulated_problem(template, problem, schedule)
    true, cut = template.kernel(problem, schedule, device), template.kernel(small, schedule, device)
    return Plan(_runs(template, problem, true, small, cut, schedule, device, settings), true)


def plan_of_kernel(problem: Problem, kernel: GeneratedKernel, settings: VerifySettings) -> Plan:
    """Return the runs of ``kernel`` on the whole of ``problem`` alone."""
    first, rest = whole_runs(problem, kernel, settings)
    return Plan(_chain(first, rest), kernel)


def _chain(*parts: Iterator[PlannedRun]) -> Iterator[PlannedRun]:
    for part in parts:
        yield from part


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
    if small == problem and not why:
        from autosched.verify.blocks_on_inputs import runs_of_blocks  # with what reads kernel files

        alone = runs_of_blocks(problem, true, settings)
    else:
        alone = []
    if alone:
        yield from _made(alone)
        if settings.depth == "full":
            yield from large_runs(template, problem, small, schedule, device, settings)
        return
    first, rest = whole_runs(small, cut, settings)
    yield from first
    if small != problem and problem.is_reduced_unasked:
        if settings.depth == "full":  # nobody has stated that the smaller problem shows the same
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
    """Yield runs of a user's kernel at the true size: of some blocks, or of all where these say nothing alone."""
    from autosched.verify.blocks_on_inputs import runs_of_blocks

    if problem.min_bytes > MOST_BYTES:
        yield PlannedRun("true size", None, "true size", f"its arrays take {problem.min_bytes:,} bytes")
        return
    alone = runs_of_blocks(problem, true, settings)
    yield from _made(alone)
    if not alone:
        inputs = StressInputs((RANDOM,), problem.random_inputs(settings.seed))
        yield PlannedRun("true size", partial(run_whole, problem, true, inputs, ASCENDING, settings), "true size")


def _made(runs: Sequence[Run]) -> Iterator[PlannedRun]:
    """Yield runs of some blocks at the true size, which were made to see whether they say anything."""
    for run in runs:
        yield PlannedRun("some blocks", partial(replace, run), "true size")
