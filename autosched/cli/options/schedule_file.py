"""Read a schedule from a file or stdin, written by hand or printed by a command with ``--json``.

The file holds an object of parameter values, or a document with exactly one schedule under one of these keys:
``schedule`` (a trial, or ``space --explain``), ``samples`` (``space --sample 1``), ``best`` (``best``, ``tune``) or
``candidates`` (``verify``). A field ``template`` next to ``schedule`` names the kernel template. Without this field,
the parameters identify the template.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.cli.terminal.errors import InputError, bad_input, listed, shortened
from measurements.files.bounded import open_readable, parse_json
from search_spaces.spaces.parameters import Parameter
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import NAMES, CompilerControls

KEYS = ("schedule", "samples", "best", "candidates")
_MOST_BYTES = 2**26


def read(source: str, domains: Mapping[str, Sequence[Parameter]]) -> Schedule:
    """Read the only schedule in a file.

    Args:
        source: Path of the file, or "-" for stdin.
        domains: Parameters of each template. The schedule's parameters are returned in this order.

    Raises:
        InputError: The file cannot be read, or does not have exactly one schedule of these templates.
    """
    text = _content(source)
    source = "stdin" if source == "-" else source
    if len(text) > _MOST_BYTES:
        raise InputError(f"{source} is too long for a schedule: give an object of parameter values")
    try:
        schedules = _schedules(parse_json(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON ({error}): give an object of parameter values") from error
    if len(schedules) != 1:
        keys = listed(KEYS, "or")
        raise InputError(
            f"{source} has {len(schedules) or 'no'} schedules: give an object of parameter values, or JSON output of "
            f"autosched with exactly one schedule under {keys}"
        )
    ((template, values),) = schedules
    if template is None:
        template = min(domains, key=lambda name: len({p.name for p in domains[name]} ^ set(values)))
    elif template not in domains:
        raise InputError(
            f"the schedule in {source} belongs to {shortened(template)}: give one of {listed(tuple(domains), 'or')}"
        )
    names = [p.name for p in domains[template]]
    missing, unknown = [n for n in names if n not in values], [n for n in values if n not in (*names, *NAMES)]
    if missing:
        raise InputError(f"the schedule in {source} has no value for {listed(missing)}")
    if unknown:
        raise InputError(
            f"the schedule in {source} has parameters that {template} does not have: {shortened(listed(unknown))}"
        )
    with bad_input():
        schedule = Schedule.from_json(template, {name: values[name] for name in (*names, *NAMES) if name in values})
        CompilerControls.of(schedule)  # raises ValueError for a value outside the parameter's domain
        for p in domains[template]:
            p.code(schedule[p.name])
    return schedule


def _content(source: str) -> bytes:
    """Read a file or stdin. One byte more than ``_MOST_BYTES`` is read, to detect files that are too long."""
    try:
        if source == "-":
            return sys.stdin.buffer.read(_MOST_BYTES + 1)
        with open_readable(source) as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{source} cannot be read ({error.strerror}): give a file, or - for stdin") from error


def _schedules(data: Any, template: str | None = None) -> list[tuple[str | None, Mapping[str, Any]]]:
    """Return all schedules in a document, each with its template if named. An object without ``KEYS`` is a schedule."""
    if isinstance(data, list):
        return [schedule for item in data for schedule in _schedules(item, template)]
    if not isinstance(data, dict) or not data:
        return []
    named = data.get("template")
    inside = [data[key] for key in KEYS if key in data]
    return _schedules(inside, named if isinstance(named, str) else template) if inside else [(template, data)]
