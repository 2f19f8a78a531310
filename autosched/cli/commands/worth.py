"""``autosched worth LOG``: estimate what tuning would save a program, before anything is tuned.

``--json`` prints:

- ``log``, ``device``, ``database`` (or null)
- ``today``: kernels that the program uses now: "answers" (autosched's) or "library" (the vendor library's)
- ``seconds``: run time of the program
- ``gain``, ``low`` and ``high``: share of this time that tuning saves (median, 10th and 90th percentile)
- ``worth_it``
- ``problems``, largest gain first. Each problem has ``problem``, ``count``, ``today`` (the kernel used now),
  ``seconds`` (of one call), ``measured``, ``share`` (of the program's time), ``headroom``, ``low``, ``high``, and
  ``gain`` (share of the program's time that is saved).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.options.devices import DeviceOption, target
from autosched.cli.options.logged_problems import (
    RowsOption,
    estimate_progress,
    logged_problems,
    row_sizes,
)
from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import print_json, say
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import without_password
from measurements.store.store import Store

if TYPE_CHECKING:
    from autosched.worth.program import ProgramPart, ProgramWorth
    from search_spaces.hardware.devices import Device


class Running(StrEnum):
    """Kernels that a program uses now (``--today``). Only needed if the program's log has no times."""

    ANSWERS = "answers"
    LIBRARY = "library"


def worth(
    calls: Annotated[str, typer.Argument(metavar="LOG", help="Log of a program's calls, in a format listed below.")],
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="DB", help="Database of earlier tuning.  [default: AUTOSCHED_DB, or none]"),
    ] = None,
    kernel: Kernels = None,
    program: Programs = None,
    triton: TritonKernels = None,
    device: DeviceOption = None,
    today: Annotated[
        Running,
        typer.Option("--today", help="Kernels that the program uses now: autosched's, or the vendor library's."),
    ] = Running.ANSWERS,
    rows: RowsOption = None,
    program_seconds: Annotated[
        float | None,
        typer.Option("--program-seconds", metavar="S", help="Total run time of the program that made these calls."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Estimate how much faster a program gets if its kernels are tuned. Nothing is measured or tuned.

    LOG lists the program's calls and how often each was made. Three formats are read: the CSV of AUTOSCHED_CALL_LOG
    (with a column 'seconds' if the calls were timed), the CSV of TunableOp, and FlashInfer's trace folder. The gain is
    a share of the time of these calls or, with --program-seconds, of the program's run time. Intervals cover the middle
    80% of outcomes and are derived from recorded searches. Exit status 1 if less than 1% would be saved.
    """
    from autosched.worth.headroom import CannotEstimate, Estimator
    from autosched.worth.program import ProgramPart, program_worth

    if program_seconds is not None and not 0 < program_seconds < float("inf"):
        raise InputError(f"--program-seconds must be a positive number of seconds, not {program_seconds:g}")
    chip = target(device)
    register_stored(kernel, program, triton, db)
    with bad_input():
        try:
            members = logged_problems(calls, chip, row_sizes(rows))
        except OSError as error:
            raise InputError(f"{calls} cannot be read ({error.strerror}): name another file") from error
    store = None if db is None else Store.open(db, create=False)
    parts: list[ProgramPart] = []
    on_estimate = estimate_progress(len(members))
    try:
        estimator = Estimator(chip, store, library=today is Running.LIBRARY)
        for done, member in enumerate(members, 1):
            try:
                parts.append(ProgramPart(estimator.estimate(member.problem, member.seconds), member.weight))
            except CannotEstimate as error:
                say(f"{formatting.one_line(member.problem)} is left out: {error}")
            on_estimate(done)
    finally:
        if store is not None:
            store.close()
    if not parts:
        raise InputError(f"{calls} has no problem whose time can be estimated on {chip.name}: add a column 'seconds'")
    with bad_input():
        total = program_worth(parts, program_seconds)
    if json:
        print_json(_to_json(total, calls, chip, db, today))
    else:
        _show(total, calls, chip, db)
    return ExitStatus.OK if total.worth_it() else ExitStatus.NO


def _show(total: ProgramWorth, calls: str, chip: Device, db: str | None) -> None:
    console = stdout_console()
    numbers = ("calls", "time of one", "share", "headroom", "gain")
    table = formatting.table("problem", "runs today", *numbers, right=numbers, fold=("problem",))
    for part in total.parts:
        low, high = part.headroom.interval
        table.add_row(
            formatting.one_line(part.headroom.problem),
            part.headroom.today.value,
            f"{part.count:,.0f}",
            formatting.time(part.headroom.seconds) + ("" if part.headroom.measured else " (estimated)"),
            f"{100 * total.share(part):.1f} %",
            f"{100 * part.headroom.expected:.1f} % ({100 * low:.0f} to {100 * high:.0f})",
            f"{100 * total.gain(part):.2f} %",
        )
    show(console, table)
    console.print()
    low, high = total.interval
    of = "the program's time" if total.other_seconds else "the time of these calls"
    gain = f"{100 * total.expected:.1f} % of {of} on {chip.name} ({100 * low:.1f} to {100 * high:.1f})"
    if not total.worth_it():
        console.print(f"not worth it: tuning would save about {gain}")
        return
    most = formatting.plural(len(total.first), "problem")
    command = f"autosched tune --from {calls} --db {db or 'best.db'} --device {chip.name} --budget 30m"
    console.print(
        f"worth it: tuning would save about {gain}, most of it in {most}: {without_password(command)}", soft_wrap=True
    )


def _to_json(total: ProgramWorth, calls: str, chip: Device, db: str | None, today: Running) -> dict[str, Any]:
    low, high = total.interval
    return {
        "log": calls,
        "device": chip.name,
        "database": None if db is None else without_password(db),
        "today": today.value,
        "seconds": total.seconds,
        "gain": total.expected,
        "low": low,
        "high": high,
        "worth_it": total.worth_it(),
        "problems": [
            {
                "problem": part.headroom.problem.to_json(),
                "count": part.count,
                "today": part.headroom.today.value,
                "seconds": part.headroom.seconds,
                "measured": part.headroom.measured,
                "share": total.share(part),
                "headroom": part.headroom.expected,
                "low": part.headroom.interval[0],
                "high": part.headroom.interval[1],
                "gain": total.gain(part),
            }
            for part in total.parts
        ],
    }
