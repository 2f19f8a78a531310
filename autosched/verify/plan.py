"""Which runs a verification consists of, by name and in order, the likeliest faults first.

A quick verification is a few runs of a small problem: on random inputs, and on edge-case inputs with warps and blocks
in random order. A full one adds inputs, orders, a second launch on the memory that the first one left, some blocks of
the problem itself where that is too large to be emulated whole, and the same schedule at stress sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from autosched.verify.coverage import Role
from autosched.verify.launch_limits import why_refused
from autosched.verify.orders import all_orders, quick_orders
from autosched.verify.run import Run
from autosched.verify.runs import (
    RANDOM,
    LaunchOverride,
    VerifySettings,
    refused,
    run_again,
    run_fewer_blocks,
    run_perturbed,
    run_sampled,
    run_whole,
)
from autosched.verify.sampled_blocks import QUICK_SHARE, sampled_flops, why_not_sampled
from autosched.verify.stress_sizes import STREAMED_FLOPS, StressSize, stress_sizes, with_short_k
from autosched.verify.tile_walk import run_walk, why_no_walk
from measurements.emulator import ASCENDING, Order
from search_spaces.hardware.devices import Device
from search_spaces.operators.input_cases import StressInputs
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.template import KernelTemplate

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands
MOST_BYTES = 2**31  # of a problem that no proxy cuts: its arrays, and those of its reference, are held at once
# A quick verification of a small problem draws its inputs again while all of them stay below these sizes: a few lines
# do not put a NaN, or a tie, at each position of a line that matters.
AGAIN_BYTES, AGAIN_FLOPS, AGAIN = 2**17, 2**21, 4
_LARGE_FLOPS = 2.0**31  # of some blocks at the true size
_QUICK_FLOPS = 2.0**29  # of the fewest blocks of the true size in a quick verification
_MOST_FLOPS = 2.0**33  # of the fewest blocks of any size: the time limit of a launch is not far
_FAR_FLOPS = 2.0**30  # of some blocks of far sizes
_QUICK_LARGE_FLOPS = 2.0**25  # of far and of many tiles in a quick verification
_WINDOW_FLOPS = 2.0**29  # of blocks that finish results of a further output
_ADDRESSABLE = 2**42  # bytes of arrays, for each of which the emulator reserves some more
_WHOLE_FLOPS, _WHOLE_BYTES = 16 * EMULATED_FLOPS, 16 * EMULATED_BYTES  # of a stress size that is run whole


class PlannedRun(NamedTuple):
    """A run of a plan. ``make`` makes it; None where it cannot be made, for the reason ``absent``, or need not be:
    ``run_by_first`` says that the first runs are of this size. ``role``: what a cut of few tiles cannot stand for, and
    this run is for. ``flops``: of its blocks, where it is of a large size."""

    name: str
    make: Callable[[], Run] | None
    role: Role | None = None
    absent: str = ""
    run_by_first: bool = False
    flops: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The runs of a verification of ``kernel``, in order. They are made lazily, and can be iterated once."""

    runs: Iterator[PlannedRun]
    kernel: Kernel

    def __iter__(self) -> Iterator[PlannedRun]:
        return self.runs


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


def plan_of_kernel(problem: Problem, kernel: Kernel, settings: VerifySettings) -> Plan:
    """Return the runs of ``kernel`` on the whole of ``problem`` alone."""
    first, rest = _whole_runs(problem, kernel, settings)
    return Plan(_chain(first, rest), kernel)


def _chain(*parts: Iterator[PlannedRun]) -> Iterator[PlannedRun]:
    for part in parts:
        yield from part


def _runs(
    template: KernelTemplate,
    problem: Problem,
    true: Kernel,
    small: Problem,
    cut: Kernel,
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
            yield from _large_runs(template, problem, small, schedule, device, settings)
        return
    first, rest = _whole_runs(small, cut, settings)
    yield from first
    if small != problem and problem.is_reduced_unasked:
        if settings.depth == "full":  # nobody has stated that the smaller problem shows the same
            yield from _unreduced_runs(problem, true, settings)
    elif small != problem or settings.depth == "full":
        yield from _true_runs(template, problem, true, small, schedule, device, settings)
    if settings.depth == "full":
        yield from _large_runs(template, problem, small, schedule, device, settings)
    else:
        yield from stress_runs(template, small, schedule, device, settings, of_cases=True)
        if small != problem:
            yield from _cheap_large_runs(template, small, cut, schedule, device, settings)
    yield from rest


def _unreduced_runs(problem: Problem, true: Kernel, settings: VerifySettings) -> Iterator[PlannedRun]:
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


def _whole_runs(
    problem: Problem, kernel: Kernel, settings: VerifySettings
) -> tuple[Iterator[PlannedRun], Iterator[PlannedRun]]:
    """Return runs of the whole of ``problem``: those that a full verification makes before, and behind, those of other
    sizes."""
    kept: dict[str, Run] = {}
    return _first_runs(problem, kernel, settings, kept), _more_runs(problem, kernel, settings, kept)


def _first_runs(
    problem: Problem, kernel: Kernel, settings: VerifySettings, kept: dict[str, Run]
) -> Iterator[PlannedRun]:
    seed, turns = settings.seed, quick_orders(settings.seed)[1]
    random = StressInputs((RANDOM,), problem.random_inputs(seed))
    together = kernel.cooperating[0] > 1 or kernel.chained  # then the order of blocks may show in sums
    compares = kernel.repeatable and (settings.depth == "full" or (together and settings.emulates))

    def first() -> Run:
        kept["first"] = run_whole(problem, kernel, random, ASCENDING, settings, keep_outputs=compares)
        return replace(kept["first"], outputs={})

    yield PlannedRun("random inputs", first)
    if settings.launch is not None:
        yield PlannedRun(
            "random inputs as asked", partial(run_again, problem, kernel, random, settings.launch, settings)
        )
    if compares and together and settings.emulates:

        def turned() -> Run:
            first = kept["first"].outputs
            launch = LaunchOverride(Order("descending", seed + 4))
            return run_again(problem, kernel, random, launch, settings, same_as=first)

        yield PlannedRun("random inputs in turns", turned)
    if settings.depth == "full":
        return
    most = max(1, EMULATED_BYTES // problem.min_bytes)
    stress = list(islice(problem.stress_inputs(seed), most))
    for given in stress:
        yield PlannedRun("edge inputs", partial(run_whole, problem, kernel, given, turns, settings))
    again = int(min(AGAIN_BYTES / problem.min_bytes, AGAIN_FLOPS / max(1.0, problem.flops)))
    # a user's kernel, which has none of them, runs in a random order, too, unless it is very large
    least = int(not stress and problem.min_bytes <= EMULATED_BYTES)
    for i, given in islice(_drawn_again(problem, seed), max(again, least)):
        order = replace(turns, seed=i + 1)
        yield PlannedRun("inputs drawn again", partial(run_whole, problem, kernel, given, order, settings, seed=i))


def _more_runs(
    problem: Problem, kernel: Kernel, settings: VerifySettings, kept: dict[str, Run]
) -> Iterator[PlannedRun]:
    if settings.depth == "quick":
        return
    seed = settings.seed
    random = StressInputs((RANDOM,), problem.random_inputs(seed))
    for i, order in enumerate(all_orders(seed)[1:]):
        name = f"edge inputs, blocks {order.blocks}"
        provoked = False
        for given in problem.stress_inputs(seed + i):
            provoked = True
            yield PlannedRun(name, partial(run_whole, problem, kernel, given, order, settings, seed=seed + i))
        if not provoked:  # a user's kernel: on what a quick verification draws again
            given = StressInputs((RANDOM,), problem.random_inputs(seed + i + 1))
            yield PlannedRun(name, partial(run_whole, problem, kernel, given, order, settings, seed=seed + i + 1))
    turns = Order("random", seed + 4)
    if settings.emulates:  # a tuner, and whoever calls the kernel, launches it again and again
        first = kept["first"].outputs if "first" in kept else {}
        yield PlannedRun(
            "launched twice",
            partial(run_again, problem, kernel, random, LaunchOverride(turns, 2), settings, same_as=first),
        )
    else:
        yield PlannedRun("random inputs in turns", partial(run_whole, problem, kernel, random, turns, settings))
    fewer = fewer_blocks(kernel)
    if fewer != kernel:
        yield PlannedRun(
            "fewer blocks", partial(run_fewer_blocks, problem, fewer, random, Order("random", seed + 6), settings)
        )
    if settings.emulates:
        yield PlannedRun("perturbed", partial(run_perturbed, problem, kernel, random, seed, settings))
        for given in problem.stress_inputs(seed + 5):
            yield PlannedRun(
                "edge inputs, perturbed", partial(run_perturbed, problem, kernel, given, seed + 5, settings)
            )


def _drawn_again(problem: Problem, seed: int) -> Iterator[tuple[int, StressInputs]]:
    """Yield inputs of a quick verification from the seeds after ``seed``, each with its seed."""
    for i in range(seed + 1, seed + AGAIN):
        yield i, StressInputs((RANDOM,), problem.random_inputs(i))
        for given in problem.stress_inputs(i):
            yield i, given


def fewer_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` as a GPU launches it on which two thirds of its clusters run at a time, where its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))


# Sizes that a cut does not stand for ---------------------------------------------------------------------------------


def _true_runs(
    template: KernelTemplate,
    problem: Problem,
    true: Kernel,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs of the problem as it was asked for."""
    if template.walk is not None:
        why = why_no_walk(true)
        config = template.config(problem, schedule, device)
        walk = None if why else partial(run_walk, template.walk, problem, config, true, settings)
        yield PlannedRun("walk of all tiles", walk, absent=why)
    yield true_size_run(template, problem, small, schedule, device, settings)


def _large_runs(
    template: KernelTemplate,
    problem: Problem,
    small: Problem,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs of sizes that grow out of the cut."""
    named = False
    for run in stress_runs(template, small, schedule, device, settings):
        named = True
        yield run
    if not named:
        why = f"{problem.operator} does not say how its sizes may grow"
        yield from (PlannedRun(role, None, role, why) for role in ("many tiles", "far"))


def _cheap_large_runs(
    template: KernelTemplate,
    small: Problem,
    kernel: Kernel,
    schedule: Schedule,
    device: Device,
    settings: VerifySettings,
) -> Iterator[PlannedRun]:
    """Yield runs of large sizes that compute next to nothing: of a few blocks of far sizes, and of many tiles that
    finish results together, which few blocks of the true size do not. All else is left to full verifications."""
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
    """Return the run of some blocks of the problem as it was asked for; of all where it is small enough.

    Args:
        template: Generates the kernel.
        problem: What was asked for.
        small: What is emulated whole; where it is ``problem``, the first run does this one, too.
        schedule: What is verified.
        device: The GPU.
        settings: A quick verification takes a share of the blocks of a full one.

    Returns:
        The run, or why it is left out.
    """
    if small == problem:
        return PlannedRun("true size, emulated whole", None, "true size", run_by_first=True)
    large, kernel = at_true_size(
        template, problem, schedule, device, settings.seed, 1.0 if settings.depth == "full" else QUICK_SHARE
    )
    why = why_not_sampled(large, kernel)
    if (
        not why
        and settings.depth == "quick"
        and sampled_flops(large, kernel, settings.seed, QUICK_SHARE) > _QUICK_FLOPS
    ):
        why = "each block computes too much of it for a quick verification"
    name = "true size" if large == problem else f"true size, k of {large.to_json()['k']}"
    walked = template.walk is not None and not why_no_walk(kernel)
    make = None if why else partial(run_sampled, large, kernel, settings, walked)
    return PlannedRun(name, make, "true size", why)


def at_true_size(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device, seed: int, share: float = 1.0
) -> tuple[Problem, Kernel]:
    """Return ``problem`` and its kernel, with a shorter k where already the fewest blocks would take too long.

    Blocks of a persistent launch compute many tiles each.

    Args:
        template: Generates the kernel.
        problem: At its true size.
        schedule: What is verified.
        device: The GPU.
        seed: Draws the blocks, whose work is counted.
        share: Of the time of a full verification.

    Returns:
        The problem with the k that is run, and its kernel.

    Raises:
        ValueError: The schedule is none for ``problem``.
    """
    whole = template.kernel(problem, schedule, device)
    flops = sampled_flops(problem, whole, seed, share)  # none of a transpose
    most = share * (_LARGE_FLOPS / 2 if whole.chained or whole.grid_may_shrink else _LARGE_FLOPS)
    if whole.window > 1 and share == 1.0:  # whole rows or columns of out, however long they are
        groups = math.prod(whole.grid) // whole.cooperating[0]
        flops, most = max(flops, problem.flops * 2 * whole.window / groups), _WINDOW_FLOPS
    if flops > most:
        shorter = with_short_k(problem, schedule, most / flops)
        with suppress(ValueError):  # the schedule is none for that k
            return shorter, template.kernel(shorter, schedule, device)
    return problem, whole


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
        small: The problem whose sizes are varied.
        schedule: What is verified.
        device: The GPU.
        settings: Depth, seed and limits.
        of_cases: Only sizes that are for inputs of a certain case.
        roles: Only sizes that may have one of these; None for all.

    Yields:
        Runs; one that cannot be made where ``schedule`` is not valid at that size, or arrays are too large.
    """
    for largest in stress_sizes(small, schedule):
        sizes = (largest, *largest.smaller)
        if (of_cases and not largest.case) or (roles is not None and all(size.role not in roles for size in sizes)):
            continue
        why, found = "", None
        for size in sizes:
            try:
                kernel = template.kernel(size.problem, schedule, device)
            except ValueError as error:  # the schedule is none for that size
                why = why or str(error)
                continue
            if sum(o.bytes for o in kernel.operands) <= _ADDRESSABLE:
                found = size, kernel
                break
        if found is None:
            yield PlannedRun(largest.name, None, largest.role, why or "its arrays are too large to be addressed")
            continue
        size, kernel = found
        if size.fewer_blocks:
            kernel = fewer_blocks(kernel)
        most = STREAMED_FLOPS if kernel.chained else _WHOLE_FLOPS
        if size.whole and size.problem.flops <= most and size.problem.min_bytes <= _WHOLE_BYTES:
            make = partial(_run_size, size, kernel, settings)
            yield PlannedRun(size.name, make, size.role, flops=size.problem.flops)
        else:
            sampled, kernel = _affordable(template, size, kernel, schedule, device, settings.seed)
            why = why_not_sampled(sampled, kernel)
            flops = sampled_flops(sampled, kernel, settings.seed, 1.0 if settings.depth == "full" else QUICK_SHARE)
            if not why and flops > _MOST_FLOPS:
                why = f"each block computes too much of it: {flops / 1e9:.0f} GFLOP for the fewest blocks"
            sample = None if why else partial(run_sampled, sampled, kernel, settings)
            yield PlannedRun(size.name, sample, size.role, why, flops=flops)


def _affordable(
    template: KernelTemplate, size: StressSize, kernel: Kernel, schedule: Schedule, device: Device, seed: int
) -> tuple[Problem, Kernel]:
    """``size`` with the shortest k where the blocks that are sampled would compute too much: those that compute many
    tiles each."""
    flops = sampled_flops(size.problem, kernel, seed)
    if size.role != "far" or flops <= _FAR_FLOPS:
        return size.problem, kernel
    shorter = with_short_k(size.problem, schedule, _FAR_FLOPS / flops)
    with suppress(ValueError):
        return shorter, template.kernel(shorter, schedule, device)
    return size.problem, kernel


def _run_size(size: StressSize, kernel: Kernel, settings: VerifySettings) -> Run:
    return run_whole(size.problem, kernel, _inputs_of(size, settings.seed), Order("alternating"), settings)


def _inputs_of(size: StressSize, seed: int) -> StressInputs:
    for inputs in size.problem.stress_inputs(seed):
        if not size.case or size.case in inputs.cases:
            return inputs
    return StressInputs((RANDOM,), size.problem.random_inputs(seed))
