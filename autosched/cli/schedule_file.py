"""A schedule that a person wrote, or that one of our commands printed with ``--json``, read from a file or stdin.

It is an object of parameter values; or a document that holds exactly one under these keys: ``schedule`` (of a record,
and of ``space --explain``), ``samples`` (``space --sample 1``), ``best`` (``best``, ``tune``), ``candidates``
(``verify``).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.cli.errors import InputError, bad_input, listed, shortened
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.schedule import Schedule

KEYS = ("schedule", "samples", "best", "candidates")
_MOST_BYTES = 2**26


def read(place: str, family: str, parameters: Sequence[Parameter]) -> Schedule:
    """The one schedule in the file ``place``, or in stdin where that is "-", its parameters in the order of
    ``parameters``. Raises InputError."""
    text = _content(place)
    place = "stdin" if place == "-" else place
    if len(text) > _MOST_BYTES:
        raise InputError(f"{place} is too long for a schedule: give an object of parameter values")
    try:
        found = _schedules(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON ({error}): give an object of parameter values") from error
    names = [p.name for p in parameters]
    if len(found) != 1:
        keys = listed(KEYS, "or")
        raise InputError(
            f"{place} holds {len(found) or 'no'} schedules: give an object of parameter values, or one "
            f"that has exactly one of them under {keys}, as our --json prints it"
        )
    (values,) = found
    missing, unknown = [n for n in names if n not in values], [n for n in values if n not in names]
    if missing:
        raise InputError(f"the schedule in {place} lacks {listed(missing)}")
    if unknown:
        raise InputError(f"the schedule in {place} has {shortened(listed(unknown))}, which {family} has not")
    with bad_input():
        schedule = Schedule.from_json(family, {name: values[name] for name in names})
        for p in parameters:
            p.code(schedule[p.name])
    return schedule


def _content(place: str) -> bytes:
    """One byte more than ``_MOST_BYTES`` at most."""
    try:
        if place == "-":
            return sys.stdin.buffer.read(_MOST_BYTES + 1)
        with Path(place).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{place} cannot be read ({error.strerror}): give a file, or - for stdin") from error


def _schedules(data: Any) -> list[Mapping[str, Any]]:
    """Every schedule in a document. What has none of ``KEYS`` is taken for one."""
    if isinstance(data, list):
        return [schedule for item in data for schedule in _schedules(item)]
    if not isinstance(data, dict) or not data:
        return []
    inside = [data[key] for key in KEYS if key in data]
    return _schedules(inside) if inside else [data]
