"""Detect stored schedules that this version can no longer use."""

from autosched.cli.terminal.errors import InputError
from autosched.dispatch.staleness import UNKNOWN, stale_reasons
from autosched.dispatch.validity import refuse_invalid
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem


def refuse_unusable(name: str, problem: Problem, trial: Trial, device: Device | None) -> None:
    """Reject a stored schedule that is invalid in this version, because it was edited or another version stored it.

    Args:
        name: Name of the database, for the error message.
        problem: Problem of the trial.
        trial: The trial.
        device: Device of the trial; None if the device table has no row for it.

    Raises:
        InputError: The schedule is invalid. The message names the trial and says what to do.
    """
    try:
        refuse_invalid(problem, trial, device)
    except ValueError as error:
        raise InputError(
            f"trial {trial.id} of {name} has a schedule that this version cannot use ({error}): tune the problem "
            "again in a new database"
        ) from error


def stale(problem: Problem, trial: Trial, device: Device | None) -> tuple[str, ...]:
    """List the parts of a trial's kernel whose code has changed since it was timed, one phrase each."""
    if is_library(trial.schedule) or device is None:
        return ()
    current_template = template(trial.schedule.template)
    return stale_reasons(
        trial, device, UNKNOWN, current_template, current_template.kernel(problem, trial.schedule, device)
    )
