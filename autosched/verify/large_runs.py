"""Runs that find faults which need more than a few tiles: true size, many tiles, high addresses, long loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from autosched.verify.coverage import Role
from autosched.verify.emulated_size import EMULATED_BYTES, EMULATED_FLOPS, fewer_blocks
from autosched.verify.planned_run import PlannedRun
from autosched.verify.run import Run
from autosched.verify.runs import (
    VerifySettings,
    run_sampled,
    run_whole,
    stress_inputs,
)
from autosched.verify.sampled_blocks import QUICK_SHARE, sampled_flops, why_not_sampled
from autosched.verify.stress_sizes import STREAMED_FLOPS, StressSize, stress_sizes, with_short_k
from autosched.verify.tile_walk import run_walk, why_no_walk
from measurements.emulator import Order
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.input_cases import RANDOM, StressInputs
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate

_LARGE_FLOPS = 2.0**31  # flops limit for sampled blocks at the true size
_QUICK_FLOPS = 2.0**29  # flops limit for the blocks that a quick verification runs at the true size
# flops limit for the minimum number of blocks, at any size; with more flops, a launch would exceed its time limit
_MOST_FLOPS = 2.0**33
_FAR_FLOPS = 2.0**30  # flops limit for the sampled blocks of a problem with high addresses; k is shortened to meet it
# flops limit of a run with high addresses or many tiles in a quick verification
_QUICK_LARGE_FLOPS = 2.0**25
# flops limit for groups of blocks that together complete rows or columns of an additional output
_WINDOW_FLOPS = 2.0**29
_ADDRESSABLE = 2**42  # maximum bytes of all arrays; the emulator reserves additional addresses around each array
_WHOLE_FLOPS, _WHOLE_BYTES = 16 * EMULATED_FLOPS, 16 * EMULATED_BYTES  # limits for running all blocks of a stress size


def true_runs(
    template: KernelTemplate,
    problem: Problem,
    true: GeneratedKernel,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs at the requested size: the tile walk, if the template has one, and a run of some blocks."""
    if template.walk is not None:
        why = why_no_walk(true)
        config = template.config(problem, schedule, device)
        walk = None if why else partial(run_walk, template.walk, problem, config, true, settings)
        yield PlannedRun("walk of all tiles", walk, absent=why)
    yield true_size_run(template, problem, small, schedule, device, settings)


def large_runs(
    template: KernelTemplate,
    problem: Problem,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs at stress sizes. If the problem has no stress sizes, yield skipped runs with the reason."""
    named = False
    for run in stress_runs(template, small, schedule, device, settings):
        named = True
        yield run
    if not named:
        why = f"{problem.operator} has no stress sizes"
        yield from (PlannedRun(role, None, role, why) for role in ("many tiles", "far"))


def cheap_large_runs(
    template: KernelTemplate,
    small: Problem,
    kernel: GeneratedKernel,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs at large sizes that take little time.

    Some runs emulate a few blocks at high addresses. Others emulate many tiles whose blocks combine their results. Runs
    of a few blocks at the true size may cover neither of these. Only full verifications run the remaining large sizes.
    """
    if kernel.chained:
        return
    roles: tuple[Role, ...] = ("far", "many tiles") if kernel.window > 1 else ("far",)
    for run in stress_runs(template, small, schedule, device, settings, roles=roles):
        if run.role in roles and run.make is not None and run.flops <= _QUICK_LARGE_FLOPS:
            yield run


def true_size_run(
    template: KernelTemplate,
    problem: Problem,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> PlannedRun:
    """Return a run that emulates some blocks of the problem at its requested size.

    Args:
        template: Generates the kernel.
        problem: Requested problem.
        small: Problem whose blocks are all emulated. If ``small`` equals ``problem``, the first run already has the
            true size.
        schedule: Schedule to verify.
        device: The GPU.
        settings: Depth and limits; a quick verification runs fewer blocks than a full one.

    Returns:
        The run. A skipped run has the reason.
    """
    if small == problem:
        return PlannedRun("true size, emulated whole", None, "true size", run_by_first=True)
    share = 1.0 if settings.depth == "full" else QUICK_SHARE
    large, kernel = at_true_size(template, problem, schedule, device, settings.seed, share)
    why = why_not_sampled(large, kernel, share)
    if (
        not why
        and settings.depth == "quick"
        and sampled_flops(large, kernel, settings.seed, QUICK_SHARE) > _QUICK_FLOPS
    ):
        why = "emulating a block takes too long for a quick verification"
    name = "true size" if large == problem else f"true size, k of {large.to_json()['k']}"
    walked = template.walk is not None and not why_no_walk(kernel)
    make_run = None if why else partial(run_sampled, large, kernel, settings, walked)
    return PlannedRun(name, make_run, "true size", why)


def at_true_size(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device, seed: int, share: float = 1.0
) -> tuple[Problem, GeneratedKernel]:
    """Return ``problem`` and its kernel. Shorten k if even the minimum number of blocks would take too long.

    This matters for persistent launches, whose blocks compute many tiles each.

    Args:
        template: Generates the kernel.
        problem: Problem at its true size.
        schedule: Schedule to verify.
        device: The GPU.
        seed: Seed of the sampled blocks, whose work is counted.
        share: Work limit, as a share of the limit of a full verification.

    Returns:
        The problem, possibly with a shorter k, and its kernel.

    Raises:
        ValueError: The schedule is invalid for ``problem``.
    """
    kernel = template.kernel(problem, schedule, device)
    flops = sampled_flops(problem, kernel, seed, share)  # the count is 0 for kernels that only move data
    most = share * (_LARGE_FLOPS / 2 if kernel.chained or kernel.grid_may_shrink else _LARGE_FLOPS)
    # all blocks of a row or column of tiles must run, even if these are many blocks
    if kernel.window > 1 and share == 1.0:
        groups = math.prod(kernel.grid) // kernel.cooperating[0]
        flops, most = max(flops, problem.flops * 2 * kernel.window / groups), _WINDOW_FLOPS
    if flops > most:
        shorter = with_short_k(problem, schedule, most / flops)
        with suppress(ValueError):  # a schedule that is invalid for the shorter k keeps the full k
            return shorter, template.kernel(shorter, schedule, device)
    return problem, kernel


def stress_runs(
    template: KernelTemplate,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
    *,
    of_cases: bool = False,
    roles: Sequence[Role] | None = None,
) -> Iterator[PlannedRun]:
    """Yield a run for each stress size.

    Args:
        template: Generates the kernels.
        small: Problem whose sizes are varied.
        schedule: Schedule to verify.
        device: The GPU.
        settings: Depth, seed and limits.
        of_cases: If True, yield only sizes that require particular edge-case inputs.
        roles: Yield only sizes with one of these roles; None for all.

    Yields:
        Runs; a run is skipped if ``schedule`` is invalid at that size, or arrays are too large.
    """
    for largest in stress_sizes(small, schedule):
        sizes = (largest, *largest.smaller)
        if (of_cases and not largest.case) or (roles is not None and all(size.role not in roles for size in sizes)):
            continue
        why, choice = "", None
        for size in sizes:
            try:
                kernel = template.kernel(size.problem, schedule, device)
            except ValueError as error:  # the schedule is invalid at that size
                why = why or str(error)
                continue
            if sum(o.bytes for o in kernel.operands) <= _ADDRESSABLE:
                choice = size, kernel
                break
        if choice is None:
            yield PlannedRun(largest.name, None, largest.role, why or "the arrays are too large to be addressed")
            continue
        size, kernel = choice
        if size.fewer_blocks:
            kernel = fewer_blocks(kernel)
        most = STREAMED_FLOPS if kernel.chained else _WHOLE_FLOPS
        if size.whole and size.problem.flops <= most and size.problem.min_bytes <= _WHOLE_BYTES:
            make_run = partial(_run_size, size, kernel, settings)
            yield PlannedRun(size.name, make_run, size.role, flops=size.problem.flops)
        else:
            sampled, kernel = _affordable(template, size, kernel, schedule, device, settings.seed)
            share = 1.0 if settings.depth == "full" else QUICK_SHARE
            why = why_not_sampled(sampled, kernel, share)
            flops = sampled_flops(sampled, kernel, settings.seed, share)
            if not why and flops > _MOST_FLOPS:
                why = f"emulation takes too long: {flops / 1e9:.0f} GFLOP for the minimum number of blocks"
            sample = None if why else partial(run_sampled, sampled, kernel, settings)
            yield PlannedRun(size.name, sample, size.role, why, flops=flops)


def _affordable(
    template: KernelTemplate, size: StressSize, kernel: GeneratedKernel, schedule: Schedule, device: Device, seed: int
) -> tuple[Problem, GeneratedKernel]:
    """Return the problem and kernel of ``size``. Shorten k if the sampled blocks would take too long."""
    flops = sampled_flops(size.problem, kernel, seed)
    if size.role != "far" or flops <= _FAR_FLOPS:
        return size.problem, kernel
    shorter = with_short_k(size.problem, schedule, _FAR_FLOPS / flops)
    with suppress(ValueError):
        return shorter, template.kernel(shorter, schedule, device)
    return size.problem, kernel


def _run_size(size: StressSize, kernel: GeneratedKernel, settings: VerifySettings) -> Run:
    return run_whole(size.problem, kernel, _inputs_of(size, settings.seed), Order("alternating"), settings)


def _inputs_of(size: StressSize, seed: int) -> StressInputs:
    for inputs in stress_inputs(size.problem, seed):
        if not size.case or size.case in inputs.cases:
            return inputs
    return StressInputs((RANDOM,), size.problem.random_inputs(seed))
