"""Schedules that a database holds and this version can no longer use."""

from autosched.cli.errors import InputError
from measurements.library_choice import is_library
from measurements.record import Record
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem


def refuse_unusable(name: str, problem: Problem, record: Record, device: Device) -> None:
    """Raises InputError, which names the trial of the database ``name``, for a schedule that is not valid today: it
    was edited, or another version wrote it."""
    if is_library(record.schedule):
        return
    try:
        template(record.schedule.template).config(problem, record.schedule, device)
    except ValueError as error:
        raise InputError(
            f"trial {record.id} of {name} has a schedule that this version cannot use ({error}): tune the problem "
            "again in a new database"
        ) from error
