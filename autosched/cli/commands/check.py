"""``autosched check``: check stored schedules for validity, correctness and speed.

``--json`` prints ``database``, ``kind`` ("static" or "timed"), ``status`` (the exit status), ``conclusion``,
``seconds`` of the command, and:

- ``doubt``: why the whole check is invalid, or ""
- ``left_out``: a sentence with the number of trials that are left out because their reference has changed, or ""
- ``judged``: number of entries that could be compared; ``counts``: number of entries by verdict
- ``tools``: names and versions of compilers and other tools
- ``entries``: ``name``, ``problem``, ``device``, ``verdict``, ``reasons``, ``baseline_seconds``, ``candidate_seconds``,
  ``recorded_seconds``, ``numbers`` and ``ratio`` of each entry. ``ratio`` is null, or the candidate's time divided by
  the baseline's time as ``median``, ``low``, ``high`` and ``pairs`` (number of pairs of times).
"""

import json as json_module
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, write_files
from autosched.cli.options.command import given_names
from autosched.cli.options.config_files import config_files
from autosched.cli.options.devices import device_option, target
from autosched.cli.options.groups import grouped
from autosched.cli.options.problem import real_number, whole_number
from autosched.cli.options.sources import Kernels, Programs, TritonKernels, register_stored
from autosched.cli.terminal import interrupts
from autosched.cli.terminal.console import show, stderr_console
from autosched.cli.terminal.errors import MOST_SEED, InputError, bad_input, within
from autosched.cli.terminal.output import say
from autosched.cli.terminal.output_files import write_output
from autosched.cli.terminal.progress import Counter
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import without_password

if TYPE_CHECKING:
    from autosched.regression.check import CheckOptions, CheckRun
    from autosched.regression.report import CheckFinding, CheckReport
    from autosched.reporting.ci import Summary


def share(text: str | float) -> float:
    """Parse a share such as ``3%`` or ``0.03``. Typer also calls this function with the default."""
    number = str(text).strip()
    try:
        fraction = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        fraction = math.nan
    if not math.isfinite(fraction):
        raise typer.BadParameter(f'invalid share "{number[:60]}": write 3% or 0.03')
    if fraction >= 1 and not number.endswith("%"):
        raise typer.BadParameter(
            f"{number[:60]} would be {100 * fraction:g}%: write {number[:60]}% or {fraction / 100:g}"
        )
    return fraction


@dataclass(frozen=True)
class ConfigFolder:
    """Options for checking a folder of tuned configurations."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="vllm or sglang: package of the files in DIR, if it cannot be inferred."
        ),
    ] = None
    triton_version: Annotated[
        str | None,
        typer.Option(
            "--triton-version", metavar="VERSION", help="With DIR: the version of Triton that must be installed."
        ),
    ] = None


@dataclass(frozen=True)
class EntryChoice:
    """Options that select the database entries to check, and the user files that contain these entries' kernels."""

    kernel: Kernels = None
    program: Programs = None
    triton: TritonKernels = None
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="NAME", help="Check only entries of this operator; may be repeated."),
    ] = None
    device: Annotated[str | None, device_option("all devices in the database")] = None


@dataclass(frozen=True)
class Thresholds:
    """Options that set which time differences are ignored."""

    max_slowdown: Annotated[
        float,
        typer.Option("--max-slowdown", parser=share, metavar="SHARE", help="Allowed slowdown (3% or 0.03)."),
    ] = 0.01
    floor: Annotated[
        float,
        typer.Option(
            "--floor", parser=real_number, metavar="US", help="Ignore time differences of fewer microseconds than this."
        ),
    ] = 0.5


@dataclass(frozen=True)
class StaticCheck:
    """Options of a static check, which needs no GPU."""

    with_python: Annotated[
        str | None,
        typer.Option(
            "--with-python",
            metavar="PYTHON",
            help="Static check, or check of DIR: compare with kernels that are compiled in this Python's environment.",
        ),
    ] = None
    growth: Annotated[
        float,
        typer.Option(
            "--growth",
            parser=share,
            metavar="SHARE",
            help="Static check: allowed growth of registers, shared memory and code.",
        ),
    ] = 0.0
    no_emulate: Annotated[bool, typer.Option("--no-emulate", help="Static check: do not emulate the entries.")] = False
    seed: Annotated[int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of emulated inputs.")] = 0


@dataclass(frozen=True)
class TimedCheck:
    """Options of a timed check on a GPU."""

    against: Annotated[
        str | None,
        typer.Option("--against", metavar="DB", help="Timed check: compare with the schedules of this database."),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="PYTHON",
            help="Timed check: compare with kernels of the autosched and the compiler in this Python's environment.",
        ),
    ] = None
    baseline_kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline-kernel",
            metavar="FILE",
            help="Timed check: kernel file that replaces the file of --kernel in the environment of --baseline.",
        ),
    ] = None
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            parser=whole_number,
            metavar="N",
            help="Rounds of a timed check. While the verdict is uncertain, more rounds follow, up to 8 times as many.",
        ),
    ] = 40
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", parser=real_number, metavar="S", help="Timed check: time limit of an entry, in seconds."
        ),
    ] = 10.0
    learn_noise: Annotated[
        bool,
        typer.Option(
            "--learn-noise", help="Timed check: store the noise of each entry in the database, for later checks."
        ),
    ] = False


@dataclass(frozen=True)
class Dashboards:
    """Options for files that benchmark dashboards read."""

    action_benchmark: Annotated[
        str | None, typer.Option("--action-benchmark", metavar="FILE", help="Write JSON for github-action-benchmark.")
    ] = None
    bencher: Annotated[str | None, typer.Option("--bencher", metavar="FILE", help="Write JSON for Bencher.")] = None


@grouped
def check(
    ctx: typer.Context,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Folder of tuned configurations of vLLM or SGLang, or one file."),
    ] = None,
    *,
    db: Annotated[
        str | None, typer.Option("--db", metavar="DB", help="Database file or SQLAlchemy URL. (required)")
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Check without a GPU; nothing is timed.")] = False,
    files: ConfigFolder,
    entries: EntryChoice,
    thresholds: Thresholds,
    without_gpu: StaticCheck,
    timed: TimedCheck,
    output: Output,
    dashboards: Dashboards,
) -> int:
    """Check stored schedules: still valid, correct and fast?

    Each schedule is compared with its baseline and gets a verdict: faster, same, slower, uncertain, cannot compare,
    wrong or broken. With --static nothing is timed: the check covers compilation, resource use, and results in the
    emulator. On a GPU, baseline and candidate are timed alternately. A schedule counts as slower only if the timings of
    two processes agree. Use --with-python before a compiler upgrade. It compiles every schedule in this environment and
    in the environment of another Python. It lists the schedules that the other compiler makes worse: tune these again.

    DIR is a folder of tuned configurations that vLLM or SGLang ship; the package is inferred from the files. The
    installed Triton compiles each entry for its device. The entry must fit the device, and its kernel is verified. The
    checked kernel comes from the installed package, or else from autosched's own version. Speed is not checked.

    """
    static = static or without_gpu.with_python is not None
    if static and (timed.against or timed.baseline):
        raise InputError(
            "--against and --baseline are for timed checks: omit --static, or omit --against and --baseline"
        )
    options = _options(entries, thresholds, without_gpu, timed)
    # imported lazily, because this import loads compilers and cost models
    from autosched.regression import outputs
    from autosched.regression.check import CheckRun

    if db is None and (folder is None or (Path(folder).is_file() and Path(folder).suffix != ".json")):
        raise InputError(
            "check needs a database (autosched check --db best.db --static), "
            "or a folder of configurations (autosched check configs)"
        )
    if db is None:
        _refuse_options_of_databases(ctx)
    output.check([db or folder or ""], dashboards.action_benchmark, dashboards.bencher)

    def written(report: "CheckReport") -> "Summary":
        summary = outputs.summary(report)
        write_files(summary, output)
        if dashboards.action_benchmark is not None:
            write_output(dashboards.action_benchmark, _document(outputs.action_benchmark(report)))
        if dashboards.bencher is not None:
            write_output(dashboards.bencher, _document(outputs.bencher(report)))
        return summary

    kind: Literal["static", "timed", "configs"] = "configs" if db is None else "static" if static else "timed"
    run = CheckRun(without_password(db or folder or ""), kind)
    try:
        with interrupts.raised(), bad_input():
            if db is None:
                report = _check_configs(Path(folder or ""), files, options)
            elif folder is not None or files != ConfigFolder():
                raise InputError("check either a database (--db), or a folder of configurations (DIR)")
            else:
                register_stored(None, None, entries.triton, db)
                report = _run(db, options, static, run)
            if timed.learn_noise and db is not None:
                _learn(db, report)
    except KeyboardInterrupt:
        written(run.report("the check was stopped"))
        say("stopped without a conclusion")
        return ExitStatus.STOPPED
    except BaseException as error:
        written(run.report(str(error) or type(error).__name__))
        raise
    return give(CommandAnswer(written(report), report.to_json(), lambda console: _show(console, report)), output)


def _options(entries: EntryChoice, thresholds: Thresholds, static: StaticCheck, timed: TimedCheck) -> "CheckOptions":
    """Validate the command's options and convert them to ``CheckOptions``.

    Raises:
        InputError: Options contradict each other.
    """
    from autosched.regression.check import CheckOptions
    from autosched.regression.procedure import ComparisonEffort
    from autosched.regression.slowdown import SlowdownLimits
    from autosched.regression.static import StaticOptions

    if timed.against and timed.baseline:
        raise InputError("two baselines: give either --against DB or --baseline PYTHON")
    within("--seed", static.seed, 0, MOST_SEED)
    within("--rounds", timed.rounds, 8, 10_000)
    if not 0 <= thresholds.floor < 1e6:
        raise InputError(f"--floor must be a time in microseconds, such as 0.5, not {thresholds.floor:g}")
    with bad_input():
        return CheckOptions(
            limits=SlowdownLimits(thresholds.max_slowdown, thresholds.floor * 1e-6),
            effort=ComparisonEffort(timed.rounds, 8 * timed.rounds, timed.seconds),
            static=StaticOptions(static.growth, not static.no_emulate, static.seed),
            operators=tuple(entries.operator or ()),
            device=None if entries.device is None else target(entries.device),
            against=timed.against or "",
            baseline=timed.baseline or "",
            kernel_files=tuple(entries.kernel or ()),
            baseline_kernel_files=tuple(timed.baseline_kernel or entries.kernel or ()),
            programs=tuple(entries.program or ()),
            with_python=static.with_python or "",
        )


def _run(db: str, options: "CheckOptions", static: bool, run: "CheckRun") -> "CheckReport":
    from autosched.regression.check import check_database
    from measurements.store.store import Store

    with Store.open(db, create=False) as store:
        total = len({(s.problem_key, s.device) for s in store.problems() if s.works})
    with Counter(stderr_console(), "checked", max(total, 1)) as progress:
        return check_database(db, options, static=static, on_progress=progress.advance, run=run)


# options of a database check that also apply to a folder of configurations
_FOR_FOLDERS = {"device", "no_emulate", "with_python"}


def _refuse_options_of_databases(ctx: typer.Context) -> None:
    """Raise InputError if an option does not apply to a folder of configurations."""
    groups = (EntryChoice, Thresholds, StaticCheck, TimedCheck)
    names = {field.name for group in groups for field in fields(group)} - _FOR_FOLDERS
    if used := sorted(names & given_names(ctx)):
        option = "--" + used[0].replace("_", "-")
        raise InputError(f"{option} is for a database (--db): omit it")


def _check_configs(folder: Path, config_folder: ConfigFolder, options: "CheckOptions") -> "CheckReport":
    from autosched.regression.config_files import ConfigCheck, recognised_files

    files = recognised_files(folder, "--format") if config_folder.format is None else config_files(config_folder.format)
    check = ConfigCheck(options.device, options.static.emulate, config_folder.triton_version or "", options.with_python)
    total = len(files.entries(folder, check)[0])
    with Counter(stderr_console(), "checked", total) as progress:
        return files.check(folder, check, progress.advance)


def _learn(db: str, report: "CheckReport") -> None:
    from autosched.regression import timed
    from autosched.regression.entries import CheckedEntry, entries
    from autosched.regression.slowdown import SlowdownLimits
    from measurements.store.store import Guard, Store

    noises = timed.noises(report.findings)
    with Store.open(db) as store:
        for entry in entries(store, SlowdownLimits()):
            if isinstance(entry, CheckedEntry) and entry.name in noises:
                before = store.guard(entry.problem, entry.device.name) or Guard()
                store.set_guard(entry.problem, entry.device.name, replace(before, noise=noises[entry.name]))


def _document(value: Any) -> bytes:
    return json_module.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _show(console: Console, report: "CheckReport") -> None:
    from autosched.regression.report import EntryStatus, worst_first

    if report.findings:
        times = ("change", "baseline", "now") if report.kind != "configs" else ()
        table = formatting.table("verdict", *times, "entry", right=times, fold=("entry",))
        for f in worst_first(report.findings):
            if f.verdict is EntryStatus.SOUND and not f.reasons:
                continue  # a folder may have thousands of configurations: show only the faulty ones
            table.add_row(f.verdict.value, *_times(f)[: len(times)], f.name)
            for reason in f.reasons:
                table.add_row("", *("" for _ in times), f"  {reason}")
        show(console, table)
        console.print()
    if report.kernels:
        console.print(f"kernel: {report.kernels}", markup=False, soft_wrap=True)
    console.print(report.conclusion, soft_wrap=True)


def _times(f: "CheckFinding") -> tuple[str, str, str]:
    change = "-" if f.ratio is None else f"{100 * (f.ratio.median - 1):+.1f}%"
    before, now = ("-" if t is None else formatting.time(t) for t in (f.baseline_seconds, f.candidate_seconds))
    return change, before, now
