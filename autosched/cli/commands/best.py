"""``autosched best``: show the fastest schedule in the database.

``--json`` prints ``database`` and ``best``, a list of trials (``Trial.to_json``), one for each problem and device. Each
trial has its ``provenance``, ``timing`` in seconds, ``schedule``, and also:

- ``flops_per_second``
- ``trials``: number of trials with the same provenance; ``ok``: number of these trials that have a time
- ``stale``: parts of the kernel's code that have changed since the kernel was timed
- ``verification_lacks``: runs that are missing from the trial's full verification, each with the reason
- ``front`` (with several objectives): the Pareto-optimal trials (``trial_table.row``)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autosched.cli.options.devices import device_option, target
from autosched.cli.options.problem import maybe_problem
from autosched.cli.options.stored import refuse_unusable, stale
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import print_json, say
from autosched.dispatch.database import device_name
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.tuning import trial_table
from autosched.tuning.objectives import Objectives
from autosched.tuning.trial_table import Row
from autosched.verify import stored
from measurements.files.data_folder import default_database
from measurements.files.text import one_line
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.devices import Device
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:
    from measurements.store.store import ProblemSummary, Store

_ANSWER = ("device", "time", "rate", "trials", "provenance")


@dataclass(frozen=True)
class Best:
    """Fastest schedule of one problem on one device.

    ``trials`` and ``ok`` count the trials with the same provenance. ``stale`` names the parts of the kernel's code that
    have changed since the schedule was timed.
    """

    problem: Problem
    trial: Trial
    trials: int
    ok: int
    stale: tuple[str, ...]
    front: tuple[Row, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the trial, the trial counts, the changed kernel parts, and the missing verification runs as JSON."""
        return {
            **formatting.trial_json(self.problem, self.trial),
            "trials": self.trials,
            "ok": self.ok,
            "stale": list(self.stale),
            "verification_lacks": list(stored.lacks(self.trial.verification)),
            **({"front": list(self.front)} if self.front else {}),
        }


def best(
    operator: Operator,
    values: Mapping[str, Any],
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
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME[:max]",
            help="Quantity of a trial to minimise (NAME:max: to maximise); repeat for a Pareto front.  "
            "[default: seconds]",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Show the best schedule of a problem, or of every stored problem of an operator.

    Without a problem, all problems in the database are shown, in a table if there are several. Times of different
    devices or provenances are never compared. Without --device, the best schedule of each device is shown. Measured
    times take precedence over replayed times, and replayed over estimated times. Exit status 1: no schedule was found.
    Exit status 2: this version cannot use the best schedule. When all problems are shown, an unusable schedule is only
    reported on stderr.
    """
    if db is None:
        with bad_input():
            db = default_database()
    problem = maybe_problem(operator, values)
    from measurements.store.store import Store  # imported lazily, because the store imports sqlalchemy

    store = Store.open(db, create=False)
    with bad_input():
        device = None if device is None else device_name(store, device)
    with bad_input():
        objectives = Objectives.of(objective or None)
        entries = _find(store, operator, problem, device, objectives)
    if json:
        print_json({"database": store.name, "best": [b.to_json() for b in entries]})
    if not entries:
        subject = formatting.one_line(problem) if problem is not None else operator.name
        where = f" on {device}" if device is not None else ""
        say(f"{store.name} has no working schedule for {subject}{where}: tune it first")
        return ExitStatus.NO
    if not json:
        console = stdout_console()
        if problem is None and len({b.problem for b in entries}) > 1:
            _show_table(console, entries)
        else:
            _show_each(console, entries, objectives)
    return 0


def _find(
    store: "Store", operator: Operator, problem: Problem | None, device: str | None, objectives: Objectives
) -> list[Best]:
    summaries, left_out = store.current(
        s for s in store.problems(operator.name) if s.works and device in (None, s.device)
    )
    if left_out:
        say(left_out)
    counts = {(s.problem_key, s.device, s.provenance, s.policy): (s.trials, s.ok) for s in summaries}
    summary_by_key: dict[tuple[str, str], ProblemSummary] = {}
    for s in summaries:
        if problem is None or s.problem_key == problem.key():
            summary_by_key.setdefault((s.problem_key, s.device), s)
    entries = []
    for s in summary_by_key.values():
        one = problem or store.problem(s)
        trial = store.best(one, s.device)
        front: tuple[Row, ...] = ()
        if trial is not None and not objectives.is_time:
            trial, front = _by(objectives, one, store.entry(s))
        if trial is not None:
            where = _known(s.device)
            try:
                refuse_unusable(store.name, one, trial, where)
                changed = stale(one, trial, where)
            except InputError as error:
                if problem is not None:
                    raise
                say(f"left out: {error}")
                continue
            count = counts[s.problem_key, s.device, trial.provenance, trial.policy]
            entries.append(Best(one, trial, *count, changed, front))
    return entries


def _by(objectives: Objectives, problem: Problem, trials: Sequence[Trial]) -> tuple[Trial | None, tuple[Row, ...]]:
    """Return the best trial by the first objective, and the Pareto front if there are several objectives.

    Raises:
        ValueError: No trial has one of the objectives.
    """
    newest = [r for r in {r.schedule: r for r in trials}.values() if r.measurement.ok and not is_library(r.schedule)]
    rows = trial_table.rows(problem, newest)
    objectives.check(dict.fromkeys(key for row in rows for key in row))
    costs = [objectives.costs(problem, r.schedule, r.measurement) for r in newest]
    able = [i for i, cost in enumerate(costs) if cost is not None]
    if not able:
        return None, ()
    chosen = newest[min(able, key=lambda i: costs[i] or ())]
    return chosen, tuple(objectives.front(problem, newest)) if len(objectives.names) > 1 else ()


def _known(name: str) -> Device | None:
    """Return the device called ``name``; None if the device table has no row for it."""
    try:
        return target(name)
    except InputError:
        return None


def _show_each(console: Console, entries: Sequence[Best], objectives: Objectives) -> None:
    for i, b in enumerate(entries):
        if i:
            console.print()
        console.print(f"{formatting.one_line(b.problem)} on {b.trial.device}")
        trials = f"{formatting.count(b.trials)} {b.trial.provenance}, {formatting.count(b.ok)} of them ok"
        facts = [*formatting.trial_facts(b.problem, b.trial), ("trials", trials)]
        if b.trial.verification is not None:
            facts.append(("verification", stored.summary(b.trial.verification)))
            facts += [("verification lacks", one_line(text)) for text in stored.lacks(b.trial.verification)]
        if b.stale:
            facts.append(("stale", f"{', '.join(b.stale)} has changed since it was timed: tune the problem again"))
        show(console, formatting.facts(facts))
        console.print()
        show(console, formatting.decisions(b.trial.schedule, console.width))
        if b.front:
            console.print(f"\nPareto front of {', '.join(objectives.names)}")
            show(console, formatting.front(objectives.names, b.trial.schedule.values, b.front))


def _show_table(console: Console, entries: Sequence[Best]) -> None:
    problems = [b.problem for b in entries]
    differing = formatting.differing_fields(problems)
    same = [name for name in formatting.telling_fields(problems) if name not in differing]
    first = problems[0].to_json()
    console.print(" ".join([problems[0].operator, *(f"{name}={first[name]}" for name in same)]))
    answers = [_answer(b) for b in entries]
    columns = [[str(b.problem.to_json()[name]) for b in entries] for name in differing]
    wide = [max(map(len, (name, *column))) for name, column in zip(differing, columns, strict=True)]
    answers_wide = sum(max(len(row[i]) for row in (_ANSWER, *answers)) + formatting.GAP for i in range(len(_ANSWER)))
    numbers = _ANSWER[1:-1]
    if sum(w + formatting.GAP for w in wide) + answers_wide <= console.width:
        table = formatting.table(*differing, *_ANSWER, right=(*differing, *numbers))
        for i, answer in enumerate(answers):
            table.add_row(*(column[i] for column in columns), *answer)
    else:
        table = formatting.table("problem", *_ANSWER, right=numbers, fold=("problem",))
        for problem, answer in zip(problems, answers, strict=True):
            names = [name for name in formatting.telling_fields([problem]) if name in differing]
            table.add_row(" ".join(f"{name}={getattr(problem, name)}" for name in names), *answer)
    show(console, table)


def _answer(b: Best) -> tuple[str, ...]:
    seconds = b.trial.seconds
    assert seconds is not None  # Store.best only returns trials with a time
    rate = formatting.rate(b.problem, seconds, b.trial.device)
    return b.trial.device, formatting.time(seconds), rate, formatting.count(b.trials), b.trial.provenance.value
