"""Scaling of a problem's estimated times to match recorded times.

The finalists of a recorded search were measured on a GPU under sustained load. If the model's estimate for the winner
is below the winner's recorded time, all estimates of the problem are multiplied by the ratio of recorded to estimated
time. This factor does not change the order of the estimates. A schedule that the recorded search did not try may still
have a lower estimate than the winner.
"""

from __future__ import annotations

from functools import lru_cache

from autosched.samplers.first_choices.model_choice import predicted_seconds
from measurements.trials import recording
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule


@lru_cache(maxsize=64)
def scale_of_estimates(problem: Problem, device: Device) -> float:
    """Return the ratio of measured to estimated time of the recorded winner, but at least 1.

    Args:
        problem: Problem of the estimates.
        device: GPU of the estimates.

    Returns:
        The factor for all estimates of the problem. It is 1 if this problem and device were not recorded, or if the
        winner is not in the current space.
    """
    recorded = winner(problem, device)
    if recorded is None:
        return 1.0
    schedule, seconds = recorded
    templates = templates_for(problem, device)
    if schedule not in templates.space(problem, device):
        return 1.0
    (estimated,) = predicted_seconds(templates, problem, [schedule], device)
    return max(1.0, seconds / estimated)


def winner(problem: Problem, device: Device) -> tuple[Schedule, float] | None:
    """Return the fastest recorded finalist and its time in seconds; None if the problem was not recorded."""
    try:
        entry = recording.find(problem.key(), device.name)
    except recording.RecordingError:
        return None
    finals = (t for t in (() if entry is None else entry.trials) if t.ok and t.rank is not None)
    times = {t.schedule: t.seconds for t in finals if t.seconds is not None and not is_library(t.schedule)}
    return min(times.items(), key=lambda item: item[1], default=None)
