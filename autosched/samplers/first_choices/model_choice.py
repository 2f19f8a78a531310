"""Choice of the default schedule for a problem that was not tuned.

The default is the schedule with the smallest predicted time, found by a few descent steps from a fixed sample of the
space. The default is also a baseline: if the model predicts that a schedule tuned for another size is slower than the
default, that schedule is not used. Every paired timing includes the default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

# size of the sample, which is stratified by template and intrinsic; predicting its times is faster than building the
# space
SAMPLES = 512
SEED = 0


@dataclass(frozen=True)
class DefaultChoice:
    """Default schedule. ``seconds`` is its estimated time per launch."""

    schedule: Schedule
    seconds: float


def default_choice(problem: Problem, device: Device, templates: TemplateSet | None = None) -> DefaultChoice | None:
    """Return the schedule that the time model chooses for ``problem`` on ``device``.

    The choice is deterministic within one version of autosched.

    Args:
        problem: Problem to compute.
        device: GPU to run on.
        templates: Templates to choose from; None for all that can compute the problem.

    Returns:
        The choice; None if no template has cost counts, or no schedule fits on the device.

    Raises:
        ValueError: No template can compute the problem, or the space is empty.
    """
    usable = templates or templates_for(problem, device)
    costed = TemplateSet([template for template in usable if template.counts is not None])
    if not len(costed):
        return None
    from autosched.samplers.first_choices.descent import descended, starting_points
    from cost_models.estimates import AnalyticEstimates

    space = costed.space(problem, device)
    estimates = AnalyticEstimates(problem, costed, device)
    optima = descended(space, estimates, starting_points(space, SAMPLES, SEED))
    return DefaultChoice(optima[0], math.exp(estimates.log_seconds(optima[:1])[0])) if optima else None


def predicted_seconds(
    templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], device: Device
) -> list[float]:
    """Return the times that the model predicts for schedules that are not compiled.

    Args:
        templates: Templates of the schedules, each with cost counts.
        problem: Problem to compute.
        schedules: Valid schedules of ``problem``.
        device: GPU whose times are predicted.

    Returns:
        Seconds, in the order of ``schedules``; infinite for a schedule that does not fit on the device.
    """
    from cost_models.estimates import estimate

    logs = estimate(problem, templates, device, schedules)
    return [math.exp(value) if math.isfinite(value) else math.inf for value in logs.tolist()]
