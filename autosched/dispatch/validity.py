"""Check that a trial's schedule, which may be edited or of another version, is valid for the current template."""

from __future__ import annotations

from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device, UnknownDevice, all_devices
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.compiler_controls import plain


def refuse_invalid(problem: Problem, trial: Trial, device: Device | None = None) -> None:
    """Raise ValueError for a schedule that breaks a rule on ``device``, by default the trial's device.

    For a device without a row only the values are checked: each must be in its parameter's domain on some known device.
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
    refusal: ValueError = ValueError("no device is known")
    for row in all_devices():
        try:
            current_template.space(problem, row).explain(plain(trial.schedule))
            return
        except ValueError as error:
            refusal = error
    raise refusal
