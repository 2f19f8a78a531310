"""``autosched tune``: search for the fastest schedule and keep every trial.

``--json`` prints ``problem``, ``device``, ``sampler``, ``seed``, ``database``, ``exhausted``, ``out_of_time``,
``interrupted``, and:

- ``provenance`` of the times, and ``backend``: lines that name the backend and the reason of this choice
- ``trials``: ``new``, ``ok`` and ``failures`` count the trials of this run, ``earlier`` counts stored trials,
``guessed`` counts schedules whose time a model predicted, and ``verified`` counts emulated schedules
- ``seconds`` of the command
- ``worth``: accuracy of the warm start's predictions as text, or ""
- ``verification``: result of the full verification of the best schedule, or ""
- ``objectives``: maps each objective to "min" or "max"; with several objectives also ``front``, the Pareto-optimal
trials
- ``stopped``: why the search ended early, or ""
- ``remeasured``: null, or the result of the final paired timing:

  - ``clear`` (true if further rounds could not change the winner) and ``rounds``
  - ``entrants``: the timed schedules with their median ``seconds``: the winner first, then the others by time
  - ``failed``: schedules that failed, with ``status`` and ``reason``
  - ``library``: ``median``, ``low`` and ``high`` of the winner's time divided by the vendor library's time; or null,
    with the reason in ``why_not``
- ``best``: null, or a trial as in ``autosched best --json``
"""

import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autosched.cli.options import schedule_file
from autosched.cli.options.devices import target
from autosched.cli.options.groups import grouped
from autosched.cli.options.problem import one_of, problem_from, whole_number
from autosched.cli.options.search import (
    DEFAULT_TRIALS,
    BackendOption,
    JsonOption,
    SearchControls,
    check_limits,
    trials_or_all,
)
from autosched.cli.options.templates import TemplateOption
from autosched.cli.terminal import clock
from autosched.cli.terminal.console import show, show_readings, stderr_console, stdout_console
from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import print_json, say
from autosched.cli.terminal.output_files import check_outputs, replaceable
from autosched.cli.terminal.progress import TuneDisplay
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from autosched.reporting.readings import readings_json
from autosched.samplers import BRUTE_FORCE
from autosched.tuning.backends import Gpus
from autosched.tuning.effort import EFFORTS
from autosched.user_kernels.c_header import c_header as header_of
from autosched.user_kernels.problem import KernelProblem
from measurements.files.atomic_write import publish
from measurements.files.data_folder import database_or_default
from measurements.files.text import without_password
from measurements.store.errors import StoreError
from search_spaces.catalogue import templates_for
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

if TYPE_CHECKING:
    from autosched.tuning.result import SoFar, TuneResult
    from autosched.tuning.winner.paired_timing import Remeasurement


@dataclasses.dataclass(frozen=True)
class GpuTiming:
    """Options for timing candidates on GPUs."""

    warm_cache: Annotated[
        bool, typer.Option("--warm-cache", help="On a GPU: measure with operands in L2 instead of DRAM.")
    ] = False
    eager: Annotated[
        bool, typer.Option("--eager", help="On a GPU: time launches from the host instead of a CUDA graph.")
    ] = False
    clocks: Annotated[
        int | None,
        typer.Option(
            "--clocks", parser=whole_number, metavar="MHZ", help="SM clock in MHz if it is locked; this is checked."
        ),
    ] = None
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="0,1|all", help="GPUs to measure on, all of one kind (default: GPU 0)."),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Measure in the Ray cluster at this address ('auto': the cluster of this machine), on all of its GPUs "
            "of the kind to tune for.",
        ),
    ] = None


@dataclasses.dataclass(frozen=True)
class EqualBits:
    """Options that restrict the order of sums, and so the bits of results."""

    same_bits_as: Annotated[
        str | None,
        typer.Option(
            "--same-bits-as",
            metavar="FILE|DB[#N]",
            help="Search only schedules whose results are bit-identical to the results of a given schedule: a JSON "
            "file, or trial N of a database (default: the best trial of this problem, else of another batch size).",
        ),
    ] = None
    batch_invariant: Annotated[
        bool,
        typer.Option(
            "--batch-invariant",
            help="Search only schedules whose result for a row has the same bits in every batch and at every "
            "position in the batch.",
        ),
    ] = False

    def reference(self, problem: Problem, device: str | None, templates: Sequence[str]) -> Schedule | str | None:
        """Return the schedule in the JSON file ``same_bits_as``. If ``same_bits_as`` is a database, return its name.

        Raises InputError for invalid JSON.
        """
        option = self.same_bits_as
        if option is None or not option.endswith(".json"):
            return option
        where = target(device)
        with bad_input():
            usable = templates_for(problem, where, templates or None)
        return schedule_file.read(option, {t.name: t.space(problem, where).parameters for t in usable})


@dataclasses.dataclass(frozen=True)
class ControlsOfCompiler:
    """Options for ptxas controls that the search varies."""

    compiler_controls: Annotated[
        bool,
        typer.Option(
            "--compiler-controls",
            help="In the last tenth of the trials, also vary ptxas's register limit and optimisation level (CUDA "
            "13.3).",
        ),
    ] = False
    control_files: Annotated[
        list[str] | None,
        typer.Option(
            "--control-file",
            metavar="FILE",
            help="Also try this control file of ptxas (its option --apply-controls); implies --compiler-controls.",
        ),
    ] = None


@dataclasses.dataclass(frozen=True)
class TrialFiles:
    """Output files of a search."""

    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write every trial of this run as a row of a CSV file.")
    ] = None
    t4: Annotated[
        str | None,
        typer.Option("--t4", metavar="FILE", help="Write the trials as T4, a format of Kernel Tuner and other tuners."),
    ] = None
    c_header: Annotated[
        str | None,
        typer.Option("--c-header", metavar="FILE", help="With --kernel: write the best parameters as a C header."),
    ] = None


@grouped
def tune(
    operator: Operator,
    problem_options: Mapping[str, Any],
    *,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="DB",
            help="Database file or SQLAlchemy URL, created if missing.  [default: AUTOSCHED_DB, else "
            "in your data folder]",
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            parser=whole_number,
            metavar="N",
            help=f"Number of schedules to try (default {DEFAULT_TRIALS}; without a GPU, the model's best; all with "
            f"--sampler {BRUTE_FORCE}).",
        ),
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(
            "--effort",
            parser=one_of(tuple(EFFORTS)),
            metavar="|".join(EFFORTS),
            help="Preset that chooses the defaults of --trials and other options.",
        ),
    ] = None,
    template: TemplateOption = None,
    backend: BackendOption = "auto",
    search: SearchControls,
    min_gain: Annotated[
        float | None,
        typer.Option(
            "--min-gain",
            metavar="G",
            help="Stop when the expected improvement by another trial is below this fraction of the best time.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", parser=whole_number, metavar="W", help="Number of compiler processes (default: one per core)."
        ),
    ] = None,
    verification_seconds: Annotated[
        float | None,
        typer.Option(
            "--verification-seconds",
            metavar="S",
            help="Without a GPU: time limit for the full verification of the best schedule (default 60; 0: no "
            "verification).",
        ),
    ] = None,
    timing: GpuTiming,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Start from this model, written by 'autosched train'. Without a GPU, the model also gives the times.",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME[:max]",
            help="Optimise this number instead of the time: a metric, registers, joules, ...; several numbers give a "
            "Pareto front.",
        ),
    ] = None,
    bits: EqualBits,
    controls: ControlsOfCompiler,
    recording: Annotated[
        str | None,
        typer.Option(
            "--recording", metavar="FILE", help="With --backend replay: a Kernel Tuner cache, a T4 file or a recording."
        ),
    ] = None,
    files: TrialFiles,
    json: JsonOption = False,
) -> int:
    """Search for the fastest schedule and store every trial in a database.

    Run the command again with the same database to continue. Ctrl-C stops the search and keeps all trials (exit status
    130). Exit status 1 if no schedule has worked.
    """
    if effort is None:
        trials = trials_or_all(trials, search.sampler)
    check_limits(trials, search.seed, workers)
    check_outputs([files.csv, files.t4, files.c_header], [recording])
    problem = problem_from(operator, problem_options)
    if files.c_header is not None and not isinstance(problem, KernelProblem):
        raise InputError("--c-header writes the parameters of your own kernel: add --kernel FILE")
    if db is None:
        db = _own_database()
    from autosched.tuning import tune as tuner  # imported lazily, because this import takes a second
    from autosched.verify.runs import LIMIT_TEXT

    reference = bits.reference(problem, search.device, template or ())
    if not json:
        show_readings(stdout_console(), problem)

    def run(so_far: "SoFar") -> "TuneResult":
        return tuner.tune(
            problem,
            trials=trials,
            database=db,
            device=search.device,
            backend=backend,
            sampler=search.sampler,
            seed=search.seed,
            workers=workers,
            verify=not search.no_verify,
            warm_cache=timing.warm_cache,
            eager=timing.eager,
            clocks=timing.clocks,
            gpus=None if timing.gpus is None else _gpus(timing.gpus),
            ray=timing.ray,
            templates=template or None,
            model=model,
            progress=so_far,
            min_gain=min_gain,
            effort=effort,
            seconds=search.seconds,
            verification_seconds=verification_seconds,
            objective=objective or None,
            recording=recording,
            same_bits_as=reference,
            batch_invariant=bits.batch_invariant,
            compiler_controls=controls.compiler_controls,
            control_files=controls.control_files or (),
        )

    result = searched(run, json=json, limit=LIMIT_TEXT)
    if files.csv is not None:
        result.to_csv(replaceable(files.csv))
    if files.t4 is not None:
        result.to_t4(replaceable(files.t4))
    if files.c_header is not None and result.best is not None and isinstance(problem, KernelProblem):
        values = {result.device.name: result.best.schedule.values}
        publish(replaceable(files.c_header), header_of(problem.file, values).encode())
    return finish(result, db, search.seed, json=json)


def _own_database() -> str:
    """Return the database in which calls look up kernels. Raises InputError if no database is configured."""
    try:
        return database_or_default(None)
    except (OSError, ValueError) as error:
        raise InputError(f"tune needs --db: {error}") from error


def searched(search: Callable[["SoFar"], "TuneResult"], *, json: bool, limit: str = "") -> "TuneResult":
    """Run a search with a progress display.

    Args:
        search: Function that runs the search. Its argument is the display to which it reports progress.
        json: If True, only the JSON document is printed to stdout.
        limit: Time limit of a trial in seconds.

    Returns:
        The result; after Ctrl-C, the result so far.

    Raises:
        InputError: The search raised ValueError before its first trial, so the user's input is at fault.
    """
    from autosched.tuning.result import CommonFailure, SoFar

    display = TuneDisplay(stdout_console() if not json else stderr_console(), stderr_console(), limit)
    so_far = SoFar(display)
    try:
        with display:
            return search(so_far)
    except KeyboardInterrupt as error:
        return so_far.interrupted(error)
    except StoreError:
        raise
    except CommonFailure as error:
        raise InputError(f"{error}; the trials are stored") from error
    except ValueError as error:
        # the search had started, so the input was valid. The error is a bug: show its traceback.
        if display.has_started:
            raise
        raise InputError(str(error)) from error


def finish(result: "TuneResult", db: str, seed: int, *, json: bool) -> int:
    """Print the result of a run and return the exit status."""
    result = dataclasses.replace(result, seconds=clock.seconds())
    if json:
        print_json(result_json(result, seed, db))
    else:
        show_result(stdout_console(), result, db)
    if result.stopped:
        say(f"tuning stopped: {result.stopped}; results so far are stored in {without_password(db)}")
    if result.interrupted:
        return ExitStatus.STOPPED
    return 0 if result.best is not None and not result.stopped else ExitStatus.NO


def _gpus(text: str) -> Gpus:
    """Parse ``--gpus``: "all", or GPU numbers separated by commas.

    Raises:
        InputError: The text is neither.
    """
    if text == "all":
        return "all"
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise InputError(f"invalid --gpus {text!r}: write all, or numbers such as 0,1") from None


def show_result(console: Console, result: "TuneResult", db: str) -> None:
    """Print the result of a run as text."""
    trials = f"{formatting.count(len(result.trials))} new in {formatting.duration(result.seconds)}"
    if result.failures:
        trials += f", failed {sum(result.failures.values())}: {formatting.reasons(result.failures)}"
    rows = [("trials", trials)]
    if result.num_guessed:
        looked, compiled = formatting.count(result.num_guessed), formatting.count(len(result.trials))
        verified = formatting.count(result.num_verified)
        rows.append(("searched", f"{looked} schedules estimated, {compiled} compiled, {verified} verified"))
    if result.earlier:
        rows.append(("earlier", f"{formatting.count(result.earlier)} in {without_password(db)}"))
    console.print()
    if result.interrupted:
        console.print(
            f"tuning stopped; all trials so far are in {without_password(db)}. Run the same command again to continue"
        )
        console.print()
    if result.satisfied:
        console.print("the search ended: the gain expected from another trial is below the limit (--min-gain)")
    if result.out_of_time:
        console.print("the search ended: time limit reached. Run the same command again to continue")
    if result.tied:
        tied = formatting.plural(result.tied, "other trial")
        console.print(f"{tied} of this run have the same estimated time as the best")
    if result.exhausted:
        console.print("every schedule of the space has been tried")
    if result.remeasured is not None:
        rows += _remeasured_facts(result.remeasured)
    if result.worth:
        rows.append(("warm start", result.worth))
    if result.verification:
        rows.append(("full verification", result.verification))
    if result.best is None:
        why = [("why", result.why_none)] if result.why_none else []
        show(console, formatting.facts([*rows, *why, ("best", "none: no schedule worked")]))
        return
    if not result.objectives.is_time:
        rows.append(("optimised", str(result.objectives)))
    show(console, formatting.facts([*formatting.trial_facts(result.problem, result.best), *rows]))
    if result.front:
        console.print()
        show(console, formatting.front(result.objectives.names, result.best.schedule.values, result.front))
    console.print()
    show(console, formatting.decisions(result.best.schedule, console.width))


def _remeasured_facts(remeasured: "Remeasurement") -> list[tuple[str, str]]:
    verdict = "the winner is clear" if remeasured.clear else "the fastest schedules are too close to tell apart"
    statuses = Counter(p.entrant.status.value for p in remeasured.failed)
    failed = f"failed {len(remeasured.failed)}: {formatting.reasons(statuses)}"
    if not remeasured.standings:
        return [("re-measured", f"no finalist could be timed again, so the search's best is kept; {failed}")]
    ran = formatting.plural(len(remeasured.standings), "finalist")
    rows = [("re-measured", f"{ran} timed alternately in {remeasured.rounds} rounds: {verdict}")]
    if remeasured.failed:
        rows.append(("finalists", failed))
    if remeasured.library is not None:
        r = remeasured.library
        won = "the library won: " if remeasured.library_won else ""
        ratio = f"the winning schedule takes {r.median:.3f} times as long as the library"
        rows.append(("library", f"{won}{ratio} ({r.low:.3f} to {r.high:.3f}, 95% confidence)"))
    else:
        rows.append(("library", f"not compared: {remeasured.why_not}"))
    return rows


def remeasured_json(remeasured: "Remeasurement", entrants: Sequence[Schedule]) -> dict[str, Any]:
    """Return a re-measurement as JSON values."""
    return {
        "clear": remeasured.clear,
        "rounds": remeasured.rounds,
        "entrants": [
            {"schedule": entrants[p.position].to_json(), "seconds": statistics.median(p.seconds)}
            for p in remeasured.standings
        ],
        "failed": [
            {"schedule": entrants[p.position].to_json(), "status": p.entrant.status.value, "reason": p.entrant.reason}
            for p in remeasured.failed
        ],
        "library": None if remeasured.library is None else dataclasses.asdict(remeasured.library),
        "why_not": remeasured.why_not,
    }


def result_json(result: "TuneResult", seed: int, db: str) -> dict[str, Any]:
    """Return the result of a run as JSON values."""
    return {
        "problem": result.problem.to_json(),
        **readings_json(result.problem),
        "device": result.device.name,
        "provenance": result.provenance.value,
        "backend": list(result.lines),
        "sampler": result.sampler,
        "seed": seed,
        "database": without_password(db),
        "trials": {
            "new": len(result.trials),
            "ok": result.ok,
            "failures": result.failures,
            "earlier": result.earlier,
            "guessed": result.num_guessed,
            "verified": result.num_verified,
        },
        "tied": result.tied,
        "seconds": result.seconds,
        "worth": result.worth,
        "verification": result.verification,
        "exhausted": result.exhausted,
        "satisfied": result.satisfied,
        "out_of_time": result.out_of_time,
        "interrupted": result.interrupted,
        "stopped": result.stopped,
        "objectives": dict(result.objectives.directions),
        "front": [dict(row) for row in result.front],
        "remeasured": None if result.remeasured is None else remeasured_json(result.remeasured, result.entrants),
        "best": None if result.best is None else formatting.trial_json(result.problem, result.best),
    }
