"""Schedules that a database holds and this version can no longer use."""

from autosched.cli.terminal.errors import InputError
from autosched.dispatch.staleness import UNKNOWN, stale_reasons
from autosched.dispatch.validity import refuse_invalid
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem


def refuse_unusable(name: str, problem: Problem, trial: Trial, device: Device | None) -> None:
    """Refuse a stored schedule that is not valid today: it was edited, or another version wrote it.

    Args:
        name: Of the database, for the error.
        problem: That of the trial.
        trial: The trial.
        device: None for one that no row describes.

    Raises:
        InputError: Names the trial and says what to do.
    """
    try:
        refuse_invalid(problem, trial, device)
    except ValueError as error:
        raise InputError(
            f"trial {trial.id} of {name} has a schedule that this version cannot use ({error}): tune the problem "
            "again in a new database"
        ) from error


def stale(problem: Problem, trial: Trial, device: Device | None) -> tuple[str, ...]:
    """Return what has changed in the code of a trial's kernel since it was timed, one phrase each."""
    if is_library(trial.schedule) or device is None:
        return ()
    its = template(trial.schedule.template)
    return stale_reasons(trial, device, UNKNOWN, its, its.kernel(problem, trial.schedule, device))
