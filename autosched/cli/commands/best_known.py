"""``autosched best --db DB``: list every problem in a database with its best time.

``--json``: ``database`` and ``best``, a list with ``name``, ``problem``, ``device``, ``template``, ``seconds``,
``provenance`` and ``trials`` of each problem and device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.options.devices import device_option
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import bad_input
from autosched.cli.terminal.output import print_json, say
from autosched.dispatch.database import device_name
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.data_folder import default_database
from measurements.files.text import one_line
from measurements.trials.problem_key import fields_of
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import is_operator

if TYPE_CHECKING:
    from measurements.store.store import ProblemSummary, Store

_MOST_NAME = 200  # maximum number of characters of a name


@dataclass(frozen=True)
class Known:
    """Best trial of a problem on a device, and the number of trials with the same provenance."""

    name: str
    trial: Trial
    rate: str
    trials: int


def best_known(
    *,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="DB",
            help="Database file or SQLAlchemy URL.  [default: AUTOSCHED_DB, else in your data folder]",
        ),
    ] = None,
    device: Annotated[str | None, device_option("all devices in the database")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """List every problem in a database with its device, best time and provenance.

    Exit status 1 if no schedule works. To see a schedule, add its problem: 'best OPERATOR' or 'best --kernel FILE'.
    """
    with bad_input():
        db = default_database() if db is None else db
    from measurements.store.store import Store

    store = Store.open(db, create=False)
    with bad_input():
        device = None if device is None else device_name(store, device)
    summaries, left_out = store.current(s for s in store.problems() if s.works and device in (None, s.device))
    if left_out:
        say(left_out)
    summary_by_key: dict[tuple[str, str], ProblemSummary] = {}
    for summary in sorted(summaries, key=lambda s: list(formatting.PROVENANCE_NOTE).index(s.provenance)):
        summary_by_key.setdefault((summary.problem_key, summary.device), summary)
    entries = [known for summary in summary_by_key.values() if (known := _known(store, summary)) is not None]
    entries.sort(key=lambda known: (known.trial.operator, known.name, known.trial.device))
    if json:
        print_json({"database": store.name, "best": [_as_json(known) for known in entries]})
    elif entries:
        table = formatting.table(
            *("problem", "device", "time", "rate", "trials", "provenance"),
            right=("time", "rate", "trials"),
            fold=("problem",),
        )
        for known in entries:
            seconds, provenance = known.trial.seconds or 0.0, known.trial.provenance.value
            numbers = formatting.time(seconds), known.rate, formatting.count(known.trials)
            table.add_row(known.name, known.trial.device, *numbers, provenance)
        show(stdout_console(), table)
    if not entries:
        where = "" if device is None else f" on {device}"
        say(f"{store.name} has no working schedule{where}: tune a problem first")
        return ExitStatus.NO
    return 0


def _known(store: Store, summary: ProblemSummary) -> Known | None:
    """Return the best trial of an entry; None if every schedule of the entry gave wrong results."""
    trial = store.best_of(summary)
    if trial is None or trial.seconds is None:
        return None
    costed = trial.facts
    name = formatting.name_without_file(summary.problem_key, costed)
    if is_operator(summary.operator):
        problem = store.problem(summary)
        name = formatting.one_line(problem)
        rate = formatting.rate(problem, trial.seconds, trial.device)
    else:
        rate = "" if costed is None else formatting.rate(costed, trial.seconds, trial.device)
    return Known(formatting.cut(one_line(name), _MOST_NAME), trial, rate, summary.trials)


def _as_json(known: Known) -> dict[str, object]:
    trial = known.trial
    return {
        "name": known.name,
        "problem": fields_of(trial.problem_key),
        "device": trial.device,
        "template": "library" if is_library(trial.schedule) else trial.schedule.template,
        "seconds": trial.seconds,
        "provenance": trial.provenance.value,
        "trials": known.trials,
    }
