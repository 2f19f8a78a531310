"""Recorded times of a problem, by which its estimates are scaled.

The final of a recorded search has times of a GPU under sustained load. If the model estimates less for the winner, all
estimates of the problem are scaled, which keeps their order. A schedule that the recorded search did not try may still
be estimated faster than its winner.
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
    """Return the factor that raises the estimate of the recorded winner to its time.

    Args:
        problem: Problem of the estimates.
        device: GPU of the estimates.

    Returns:
        The factor, at least 1. It is 1 without a recorded final of exactly this problem and device, or if the winner is
        not in the current space.
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
    """Return the fastest schedule of the recorded finals, and its seconds; None without one."""
    try:
        entry = recording.find(problem.key(), device.name)
    except recording.RecordingError:
        return None
    finals = (t for t in (() if entry is None else entry.trials) if t.ok and t.rank is not None)
    times = {t.schedule: t.seconds for t in finals if t.seconds is not None and not is_library(t.schedule)}
    return min(times.items(), key=lambda item: item[1], default=None)
