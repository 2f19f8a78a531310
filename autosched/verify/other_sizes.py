"""Runs of one kernel with other values of its dynamic sizes (sizes passed at launch) and scalars."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from autosched.verify.orders import quick_orders
from autosched.verify.planned_run import PlannedRun
from autosched.verify.runs import VerifySettings, refused, run_whole
from search_spaces.hardware.devices import Device
from search_spaces.operators.input_cases import RANDOM, StressInputs
from search_spaces.operators.problem import Problem, divisor_of
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate


def runs_of_other_sizes(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device, settings: VerifySettings
) -> Iterator[PlannedRun]:
    """Yield a run of ``schedule`` for each further problem, with other dynamic sizes and scalars.

    Args:
        template: Generates the kernels.
        problem: Emulated problem.
        schedule: Schedule to verify.
        device: The GPU.
        settings: Depth, seed and limits.

    Yields:
        Planned runs.
    """
    order, sources = quick_orders(settings.seed)[1], dict[tuple[int, ...], str]()
    for other in (problem, *problem.at_other_sizes(schedule.values)):
        sizes = {name: getattr(other, name) for name in problem.dynamic_sizes}
        passed = {name: getattr(other, name) for name in problem.scalar_fields}
        name = " ".join(f"{size}={value}" for size, value in (sizes | passed).items())
        try:
            kernel = template.kernel(other, schedule, device)
        # the schedule is invalid, for example if this size is not divisible by the width of a vector access
        except ValueError as error:
            yield PlannedRun(name, None, absent=str(error))
            continue
        divisors = tuple(divisor_of(value) for value in sizes.values())
        if sources.setdefault(divisors, kernel.source) != kernel.source:
            why = f"the kernel for {name} differs from the kernel for other sizes with the same divisors"
            yield PlannedRun(name, partial(refused, other, settings.seed, why))
        if other != problem:
            inputs = StressInputs((RANDOM,), other.random_inputs(settings.seed))
            yield PlannedRun(name, partial(run_whole, other, kernel, inputs, order, settings))
