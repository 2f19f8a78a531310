"""``autosched report``: show a database as one HTML page.

``--json`` prints ``out``, ``database``, ``against`` (null without ``--against``), ``problems`` and ``changes``. The
entries of ``problems`` have the columns of the page's first table: ``problem``, ``device``, ``winner``, ``seconds``,
``share_of_roof``, ``provenance``, ``verification``, ``age`` and ``advice``. The entries of ``changes`` have
``problem``, ``device``, ``verdict``, ``ratio`` and ``decisions``.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal.errors import InputError
from autosched.cli.terminal.output import answer, print_json, say
from autosched.cli.terminal.output_files import check_outputs, replaceable
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files import atomic_write
from measurements.files.text import without_password

if TYPE_CHECKING:
    from autosched.reporting.html import ReportPage


def report(
    *,
    db: Annotated[str, typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL. (required)")] = "",
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="File name of the page. (required)")] = "",
    optuna: Annotated[
        str,
        typer.Option(
            "--optuna",
            metavar="FILE",
            help="Also write the trials as Optuna studies, which optuna-dashboard FILE shows.",
        ),
    ] = "",
    against: Annotated[
        str | None, typer.Option("--against", metavar="DB", help="Compare with the winners of this database.")
    ] = None,
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    operator: Annotated[str | None, typer.Option("--operator", metavar="NAME", help="Only this operator.")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="D", help="Only this device.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Write a database as one HTML page: the fastest schedules, why these are fast, and advice.

    The page is self-contained and runs no script. It shows the progress of the search, the effect of each parameter,
    the estimated parts of the time, layouts and thread maps, and failures by reason. --optuna writes the trials for
    Optuna's dashboard. Exit status 1 if there is nothing to report.
    """
    for value, option in ((db, "--db"), (out or optuna, "--out")):
        if not value:
            raise InputError(f"report needs {option}: autosched report --db best.db --out report.html")
    check_outputs([each for each in (out, optuna) if each], [db, against])
    register_stored(kernel, program, triton, db)
    from autosched.reporting.html import build, render
    from measurements.store.store import Store

    store = Store.open(db, create=False)
    if left_out := store.current(store.problems(operator))[1]:
        say(left_out)
    if optuna:
        from autosched.reporting import optuna_studies

        studies = optuna_studies.write(store, replaceable(Path(optuna)), operator, device)
        if not studies:
            say(f"{without_password(db)} has no matching trial: there is nothing to report")
            return ExitStatus.NO
        if not json:
            number = f"{formatting.count(studies)} {'study' if studies == 1 else 'studies'}"
            answer(f"{optuna}: {number}; optuna-dashboard {optuna} shows them")
        elif not out:
            print_json({"optuna": optuna, "studies": studies})
        if not out:
            return 0
    other = None if against is None else Store.open(against, create=False)
    page = build(store, other, operator=operator, device=device)
    if not (page.entries or page.changes):
        say(f"{without_password(db)} has no matching trial: there is nothing to report")
        return ExitStatus.NO
    content = render(page).encode("utf-8", "replace")
    atomic_write.publish(replaceable(Path(out)), content)
    if json:
        print_json(_as_json(page, out))
    else:
        answer(
            f"{out}: {formatting.plural(len(page.entries), 'problem')}, {formatting.plural(page.trials, 'trial')}, "
            f"{formatting.size(len(content))}"
        )
    return 0


def _as_json(page: "ReportPage", out: str) -> dict[str, Any]:
    return {
        "out": out,
        "database": page.database,
        "against": page.against or None,
        "problems": [
            {
                "problem": e.name,
                "device": e.device,
                "winner": e.winner,
                "seconds": e.seconds,
                "share_of_roof": e.share,
                "provenance": e.provenance,
                "verification": e.verification,
                "age": e.age,
                "advice": e.advice,
            }
            for e in page.entries
        ],
        "changes": [
            {
                "problem": c.entry.name,
                "device": c.entry.device,
                "verdict": c.verdict,
                "ratio": c.ratio,
                "decisions": list(c.decisions),
            }
            for c in page.changes
        ],
    }
