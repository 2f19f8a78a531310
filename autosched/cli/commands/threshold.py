"""``autosched db threshold``: set the thresholds of one database entry for later checks.

``--json`` prints ``database``, ``problem``, ``device`` and ``threshold``. The threshold is null, or has
``max_slowdown``, ``floor_seconds``, ``noise`` and ``notes``, each of which is null or "" if it is not set.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.commands.check import share
from autosched.cli.options.problem import problem_from, real_number
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import answer, print_json, say
from autosched.dispatch.database import device_name
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import one_line, printable
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:
    from measurements.store.store import Guard, Store

LONGEST_NOTE = 200  # maximum number of characters of a note


def threshold(
    operator: Operator,
    values: Mapping[str, Any],
    *,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL. (required)")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="D", help="GPU (default: the only GPU with the problem in DB).")
    ] = None,
    max_slowdown: Annotated[
        float | None,
        typer.Option("--max-slowdown", parser=share, metavar="SHARE", help="Allowed slowdown (5% or 0.05)."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            "--floor", parser=real_number, metavar="US", help="Ignore time differences of fewer microseconds than this."
        ),
    ] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="Text that explains the thresholds.")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove all thresholds of the entry, and its stored noise.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Set the thresholds that later checks apply to one entry.

    Options that are left out keep their value. With only --db and --device, the thresholds are shown. Exit status 1 if
    the database holds no working schedule of the problem.
    """
    if db is None:
        raise InputError(f"db threshold needs --db: autosched db threshold {operator.name} ... --db best.db")
    changes = {"max_slowdown": max_slowdown, "floor_seconds": None if floor is None else floor * 1e-6}
    given_thresholds: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if note is not None:
        given_thresholds["notes"] = _checked(note)
    if forget and given_thresholds:
        raise InputError("--forget removes all thresholds: do not combine it with options that set thresholds")
    problem = problem_from(operator, values)
    from measurements.store.store import Guard, Store  # imported lazily, because the store imports sqlalchemy

    with Store.open(db, create=False) as store:
        where = _device(store, problem, device)
        if where is None:
            description = formatting.one_line(problem)
            on = "" if device is None else f" on {one_line(device)}"
            say(f"{store.name} has no working schedule for {description}{on}: tune it first")
            return ExitStatus.NO
        guard = store.guard(problem, where)
        if forget or given_thresholds:
            with bad_input():
                guard = None if forget else replace(guard or Guard(), **given_thresholds)
            store.set_guard(problem, where, guard)
        name = store.name
    if json:
        document = None if guard is None else asdict(guard)
        print_json({"database": name, "problem": problem.to_json(), "device": where, "threshold": document})
    elif guard is None:
        entry = f"{formatting.one_line(problem)} on {one_line(where)}"
        answer(f"{entry} has no thresholds of its own: the options of check apply")
    else:
        show(stdout_console(), formatting.facts(_rows(problem, where, guard)))
    return 0


def _device(store: "Store", problem: Problem, device: str | None) -> str | None:
    """Return the only device on which the problem has an entry; None if it has no entry.

    Raises:
        InputError: The problem has entries on several devices.
    """
    if device is not None:
        with bad_input():
            name = device_name(store, device)
        return name if store.best(problem, name) is not None else None
    devices = [name for name in store.devices(problem) if store.best(problem, name) is not None]
    if len(devices) > 1:
        raise InputError(
            f"{store.name} has this problem on {', '.join(map(one_line, devices))}: choose one with --device"
        )
    return devices[0] if devices else None


def _rows(problem: Problem, device: str, guard: "Guard") -> list[tuple[str, str]]:
    rows = [("entry", f"{formatting.one_line(problem)} on {one_line(device)}")]
    if guard.max_slowdown is not None:
        rows.append(("allowed slowdown", f"{100 * guard.max_slowdown:g}%"))
    if guard.floor_seconds is not None:
        rows.append(("floor", f"differences up to {1e6 * guard.floor_seconds:g} us are ignored"))
    if guard.noise is not None:
        rows.append(("noise", f"{100 * guard.noise:.2g}%, stored by check --learn-noise"))
    if guard.notes:
        rows.append(("note", one_line(guard.notes)))
    return rows


def _checked(note: str) -> str:
    with bad_input():
        if len(note) > LONGEST_NOTE:
            raise ValueError(f"a note has {LONGEST_NOTE} characters at most, not {len(note)}")
        try:
            return printable(note)
        except ValueError as error:
            raise ValueError(f"the note {error}") from None
