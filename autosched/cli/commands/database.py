"""``autosched db``: maintain a database.

The store is imported within the functions, so that other commands do not wait for sqlalchemy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input, shortened
from autosched.cli.terminal.output import answer, print_json, say
from autosched.dispatch.validity import refuse_invalid
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import one_line, without_password
from measurements.trials.trial import Trial
from search_spaces.catalogue import is_operator

if TYPE_CHECKING:
    from measurements.store.store import ProblemSummary, Store

Db = Annotated[str, typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL. (required)")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def stats(*, db: Db = "", json: Json = False) -> int:
    """Show the size and contents of a database."""
    from measurements.store import maintenance
    from measurements.store.store import Store

    needs(db, "--db", "db stats --db best.db")
    store = Store.open(db, create=False)
    summary = maintenance.stats(store)
    if json:
        print_json({"database": store.name, **asdict(summary)})
        return 0
    console = stdout_console()
    size = "on a server" if summary.size is None else formatting.size(summary.size)
    rows = [("database", f"{store.name}, {size}, schema {summary.schema}")]
    rows += [("trials", f"{formatting.count(summary.trials)} of {formatting.plural(summary.problems, 'problem')}")]
    rows += [("statuses", formatting.reasons(summary.statuses) or "none")]
    show(console, formatting.facts(rows))
    entries: Counter[tuple[str, str, str]] = Counter()
    trials: Counter[tuple[str, str, str]] = Counter()
    for s in summary.entries:
        key = (s.operator, s.device, s.provenance.value)
        entries[key] += 1
        trials[key] += s.trials
    if entries:
        console.print()
        table = formatting.table(
            "operator", "device", "provenance", "problems", "schedules", right=("problems", "schedules")
        )
        for key in sorted(entries):
            table.add_row(*key, formatting.count(entries[key]), formatting.count(trials[key]))
        show(console, table)
    return 0


def gc(
    *,
    db: Db = "",
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="Also remove each entry's schedules except the N fastest."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    json: Json = False,
) -> int:
    """Remove stored trials that are never looked up.

    These are trials whose kernel's code has changed since the trials were stored. The disk space of removed trials is
    freed. The best schedule of every problem is kept. Trials with wrong results are kept, too.
    """
    from measurements.store import maintenance
    from measurements.store.store import Store

    needs(db, "--db", "db gc --db best.db --dry-run")
    with bad_input(), Store.open(db, create=False) as store:
        done = maintenance.collect(store, keep, dry_run=dry_run)
    if json:
        print_json(
            {"database": without_password(db), "removed": dict(done.removed), "left": done.left, "dry_run": dry_run}
        )
        return 0
    verb = "would be removed" if dry_run else "removed"
    answer(f"{formatting.plural(sum(done.removed.values()), 'trial')} {verb}, {formatting.count(done.left)} left")
    for why, number in sorted(done.removed.items()):
        answer(f"  {formatting.count(number)} {why}")
    return 0


def check_db(
    *,
    db: Db = "",
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    json: Json = False,
) -> int:
    """Check the integrity of a database.

    All rows must be readable. Stored summaries of problems must agree with the trials. The best schedules must be valid
    in this version. Schedules of your own kernels are checked only if their files are given. Exit status 1 if anything
    is wrong.
    """
    from measurements.store import maintenance
    from measurements.store.store import Store

    needs(db, "--db", "db check --db best.db")
    register_stored(kernel, program, triton, db)
    store = Store.open(db, create=False)
    faults = maintenance.check(store)
    unknown: Counter[str] = Counter()
    left_out = ""
    if not faults:
        current, left_out = store.current(store.problems())
        for summary in current:
            trial = store.best_of(summary)
            if trial is None:
                continue
            unknown[summary.operator] += not is_operator(summary.operator)
            why = unusable_reason(store, summary, trial)
            if why:
                faults.append(f"trial {trial.id}, the best of its problem, cannot be used: {why}")
    unknown = +unknown
    if left_out:
        say(left_out)
    if json:
        print_json({"database": store.name, "wrong": faults, "not_judged": unknown})
    else:
        for line in faults:
            stdout_console().print(line, soft_wrap=True)
        if not faults:
            answer("nothing is wrong")
        for operator, number in sorted(unknown.items()):
            schedules = formatting.plural(number, "best schedule")
            answer(f"not checked: {schedules} of {one_line(shortened(operator))}, whose kernel files were not given")
    return ExitStatus.NO if faults else 0


def unusable_reason(store: Store, summary: ProblemSummary, trial: Trial) -> str:
    """Return why a trial cannot be used; "" if it is usable, or if its kernel is not registered."""
    if not is_operator(summary.operator):
        return ""
    try:
        refuse_invalid(store.problem(summary), trial)
    except ValueError as error:
        return str(error)
    return ""


def needs(value: str, option: str, example: str) -> None:
    """Raise InputError with an example command if a required option is missing (its ``value`` is "")."""
    if not value:
        raise InputError(f"{example.partition(' --')[0]} needs {option}: autosched {example}")
