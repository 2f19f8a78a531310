"""Check that a stored schedule is valid for the current template.

The schedule may come from another version, or may have been edited.
"""

from __future__ import annotations

from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device, UnknownDevice, all_devices
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.compiler_controls import plain


def refuse_invalid(problem: Problem, trial: Trial, device: Device | None = None) -> None:
    """Raise ValueError if a trial's schedule breaks a rule on ``device`` (default: the trial's device).

    For a device that is not in the device table, only the domains of the parameters are checked: at least one known
    device must allow all values of the schedule.
    """
    if is_library(trial.schedule):
        return
    current_template = template(trial.schedule.template)
    if device is None:
        try:
            device = device_row(trial.device)
        except UnknownDevice:
            device = None
    if device is not None:
        current_template.config(problem, trial.schedule, device)
        return
    refusal: ValueError = ValueError("the device table is empty")
    for row in all_devices():
        try:
            current_template.space(problem, row).explain(plain(trial.schedule))
            return
        except ValueError as error:
            refusal = error
    raise refusal
