"""Default schedule of a problem that was not tuned.

The time model likes it best among those that it finds in a few steps from a fixed sample of the space. It is the bar
for every answer: a tuned schedule of another size is accepted only if the model does not rank it after this one. It
also takes part in every paired re-measurement.
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

SAMPLES = 512  # stratified by template and intrinsic; predicting them takes less time than building the space
SEED = 0


@dataclass(frozen=True)
class DefaultChoice:
    """``seconds`` is the model's time of one launch of ``schedule``."""

    schedule: Schedule
    seconds: float


def default_choice(problem: Problem, device: Device, templates: TemplateSet | None = None) -> DefaultChoice | None:
    """Return the model's own choice for ``problem`` on ``device``, of ``templates`` or all that can compute it.

    The same for the same version of autosched. None where no template states its cost, or no schedule fits. Raises
    ValueError where no template computes the problem, or its space is empty.
    """
    usable = templates or templates_for(problem, device)
    costed = TemplateSet([template for template in usable if template.counts is not None])
    if not len(costed):
        return None
    from autosched.samplers.first_choices.descent import descended, starting_points
    from cost_models.estimates import AnalyticEstimates

    space = costed.space(problem, device)
    estimates = AnalyticEstimates(problem, costed, device)
    found = descended(space, estimates, starting_points(space, SAMPLES, SEED))
    return DefaultChoice(found[0], math.exp(estimates.log_seconds(found[:1])[0])) if found else None


def predicted_seconds(
    templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], device: Device
) -> list[float]:
    """Return the model's time of each schedule before it is compiled.

    Args:
        templates: Those of the schedules, each with cost counts.
        problem: What is computed.
        schedules: Valid ones of ``problem``.
        device: The GPU that times are of.

    Returns:
        Seconds, in the order of ``schedules``; infinite for one that does not fit on the device.
    """
    from cost_models.estimates import estimate

    logs = estimate(problem, templates, device, schedules)
    return [math.exp(value) if math.isfinite(value) else math.inf for value in logs.tolist()]
