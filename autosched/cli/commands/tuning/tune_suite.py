"""``autosched tune --suite FILE``: tune many problems under one budget.

``--json``: ``suite``, ``database``, ``trials``, ``seconds``, ``out_of_time``, ``interrupted``, ``stopped`` (a reason,
or ""), and ``problems``, in the order of the file: ``problem``, ``weight``, ``trials`` (of this run), ``worth``
(accuracy of the warm start's predictions as text, or "") and ``best`` (null, or a trial as in ``autosched best
--json``).
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autosched.cli.options.devices import target
from autosched.cli.options.groups import grouped
from autosched.cli.options.logged_problems import (
    RowsOption,
    estimate_progress,
    existing_store,
    logged_problems,
    row_sizes,
)
from autosched.cli.options.problem import one_of, whole_number
from autosched.cli.options.search import (
    BackendOption,
    JsonOption,
    SearchControls,
    check_limits,
)
from autosched.cli.terminal import interrupts
from autosched.cli.terminal.console import show, stderr_console, stdout_console
from autosched.cli.terminal.errors import MOST_TRIALS, InputError, bad_input
from autosched.cli.terminal.output import print_json, say
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.samplers import DEFAULT
from autosched.tuning.backends.cluster import cluster
from measurements.files.text import without_password
from measurements.store.errors import StoreError
from search_spaces.catalogue import templates_for

if TYPE_CHECKING:
    from autosched.suites.suite import Standing, SuiteMember, SuiteResult
    from autosched.tuning.result import TuneResult
    from search_spaces.hardware.devices import Device

EFFORTS = {"model": 1, "quick": 16, "full": 128}  # average number of trials per problem, by effort
_TRIALS = 256
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@grouped
def tune_suite(
    *,
    suite: Annotated[
        str | None, typer.Option("--suite", metavar="FILE", help="TOML file with a table [[problem]] for each problem.")
    ] = None,
    calls: Annotated[
        str | None,
        typer.Option("--from", metavar="LOG", help="Log of a program's calls; the formats are listed below."),
    ] = None,
    rows: RowsOption = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DB", help="Database, created if missing. (required)")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", parser=whole_number, metavar="N", help="Trials of all problems together (default 256)."
        ),
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            "--effort",
            parser=one_of(tuple(EFFORTS)),
            metavar="|".join(EFFORTS),
            help="Preset for --trials, described below.",
        ),
    ] = None,
    search: SearchControls,
    backend: BackendOption = "auto",
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="T", help="How long to search, such as 90s, 30m or 2h.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option("--ray", metavar="ADDRESS", help="Measure on the GPUs of this Ray cluster, or 'auto'.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", parser=whole_number, metavar="W", help="Number of compiler processes.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Start from this model, written by 'train'.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Tune many problems, such as the layers of a model, under one budget.

    Every [[problem]] of the file has an operator, the operator's fields, and an optional weight: how often the problem
    is computed. Each round of trials goes to the problems with the largest expected saving. --from reads problems and
    their counts from a log of a program's calls: the CSV of AUTOSCHED_CALL_LOG or TunableOp, or FlashInfer's trace
    folder. --effort model tries the time model's first choice of each problem. --effort quick tries 16 schedules per
    problem on average, --effort full 128. With --budget but neither --trials nor --effort, the number of trials is
    unlimited. Exit status 1 if any problem has no working schedule.
    """
    if db is None:
        raise InputError("tune --suite needs --db: autosched tune --suite layers.toml --db best.db")
    if (suite is None) == (calls is None):
        raise InputError("give either --suite or --from: tune --from shapes.csv --db best.db --budget 30m")
    if trials is not None and effort is not None:
        raise InputError("give either --trials or --effort")
    device, seconds = search.device, search.seconds
    if budget is not None:
        if seconds is not None:
            raise InputError("give either --seconds or --budget")
        seconds = _seconds(budget)
    check_limits(trials, search.seed, workers)
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError(f"--seconds must be more than 0, not {seconds:g}")
    console = stderr_console()

    def tell(standing: "Standing", result: "TuneResult") -> None:
        best = "no schedule works yet" if standing.best is None else _time(standing)
        name = formatting.one_line(standing.member.problem)
        console.print(f"{name}: {formatting.plural(standing.trials, 'trial')}, {best}", soft_wrap=True)

    from autosched.suites import suite as suites

    with ExitStack() as stack:
        with bad_input():
            fleet = None if ray is None else stack.enter_context(closing(cluster(ray, workers=workers)))
            if fleet is not None:
                device = fleet.device(device).name
            try:
                members = (
                    _recorded(calls, target(device), row_sizes(rows), db)
                    if calls is not None
                    else suites.read_suite(str(suite))
                )
            except OSError as error:
                raise InputError(f"{suite or calls} cannot be read ({error.strerror}): name another file") from error
            for member in members:
                templates_for(member.problem, target(device))
        if trials is None:
            trials = _TRIALS if effort is None else EFFORTS[effort] * len(members)
            if effort is None and budget is not None:
                trials = MOST_TRIALS
        try:
            with interrupts.raised():
                result = suites.tune_suite(
                    members,
                    trials=trials,
                    seconds=seconds,
                    tell=tell,
                    database=db,
                    device=device,
                    backend=backend,
                    sampler=search.sampler or DEFAULT,
                    seed=search.seed,
                    workers=workers,
                    ray=fleet,
                    verify=not search.no_verify,
                    model=model,
                )
        except StoreError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from error
        except KeyboardInterrupt:
            say("stopped")
            return ExitStatus.STOPPED
    if json:
        print_json(_to_json(result, str(suite or calls), db))
    else:
        _show(result)
    stored_text = f"results so far are stored in {without_password(db)}" if result.trials else "nothing was tried"
    if result.stopped:
        say(f"tuning stopped: {result.stopped}; {stored_text}")
    if result.interrupted:
        say(f"stopped; {stored_text}")
        return ExitStatus.STOPPED
    return 0 if result.ok and not result.stopped else ExitStatus.NO


def _seconds(budget: str) -> float:
    """Parse a duration and return seconds.

    Raises:
        InputError: The text is not a duration.
    """
    unit = _UNITS.get(budget[-1:])
    try:
        number = float(budget[:-1] if unit else budget)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InputError(f"--budget must be a duration such as 90s, 30m or 2h, not {budget}")
    return number * (unit or 1.0)


def _recorded(calls: str, chip: "Device", rows: Sequence[int], db: str) -> "tuple[SuiteMember, ...]":
    """Return those problems of a log for which there are kernels, largest expected gain first."""
    from autosched.suites.prior import with_headroom
    from autosched.worth.headroom import Estimator

    members = logged_problems(calls, chip, rows)
    with existing_store(db) as store:
        return with_headroom(members, Estimator(chip, store), estimate_progress(len(members)))


def _show(result: "SuiteResult") -> None:
    console = stdout_console()
    total = math.fsum(_cost(s) for s in result.standings)
    numbers = ("weight", "trials", "first", "best", "share")
    table = formatting.table("problem", *numbers, "provenance", right=numbers, fold=("problem",))
    for standing in result.standings:
        first = next((b for b in standing.bests if math.isfinite(b)), math.inf)
        table.add_row(
            formatting.one_line(standing.member.problem),
            f"{standing.member.weight:g}",
            formatting.count(standing.trials),
            formatting.time(first) if math.isfinite(first) else "-",
            formatting.time(standing.bests[-1]) if standing.best is not None else _missing(standing),
            f"{100 * _cost(standing) / total:.1f} %" if total and standing.best is not None else "-",
            standing.best.provenance.value if standing.best is not None else "-",
        )
    show(console, table)
    console.print()
    kinds = sorted({s.best.provenance.value for s in result.standings if s.best is not None})
    together = "no problem has a working schedule"
    if total:
        together = f"{formatting.time(total)} ({' and '.join(kinds)}) of all problems, weighted"
    console.print(f"{formatting.plural(result.trials, 'trial')} in {formatting.duration(result.seconds)}: {together}")
    if result.out_of_time:
        console.print("time limit reached; run the same command again to continue")
    for standing in result.standings:
        if standing.worth:
            console.print(f"{formatting.one_line(standing.member.problem)}: {standing.worth}", soft_wrap=True)


def _time(standing: "Standing") -> str:
    assert standing.best is not None
    return f"{formatting.time(standing.bests[-1])}, {standing.best.provenance}"


def _missing(standing: "Standing") -> str:
    return "none works" if standing.trials or standing.exhausted else "not reached"


def _cost(standing: "Standing") -> float:
    return standing.member.weight * standing.bests[-1] if standing.best is not None else 0.0


def _to_json(result: "SuiteResult", suite: str, db: str) -> dict[str, Any]:
    return {
        "suite": suite,
        "database": without_password(db),
        "trials": result.trials,
        "seconds": result.seconds,
        "out_of_time": result.out_of_time,
        "interrupted": result.interrupted,
        "stopped": result.stopped,
        "problems": [
            {
                "problem": s.member.problem.to_json(),
                "weight": s.member.weight,
                "trials": s.trials,
                "worth": s.worth,
                "best": None if s.best is None else formatting.trial_json(s.member.problem, s.best),
            }
            for s in result.standings
        ],
    }
