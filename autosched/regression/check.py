"""Check of a database or of selected entries, as the command line and the pytest plug-in run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from autosched.programs.loading import register_at
from autosched.regression.baselines import DatabaseBaseline, EnvironmentBaseline, KnownPrograms, RecordedBaseline
from autosched.regression.entries import CheckedEntry, entries
from autosched.regression.procedure import ComparisonEffort
from autosched.regression.report import CheckFinding, CheckReport, EntryStatus
from autosched.regression.slowdown import SlowdownLimits
from autosched.regression.static import StaticOptions, check_static
from autosched.regression.timed import Baselines, OnProgress, TimingSession, check_timed
from autosched.regression.upgrade import check_upgrade
from autosched.user_kernels.user_kernel import KernelSpec
from measurements.compiler.other_compiler import NoOtherCompiler, OtherCompiler
from measurements.compiler.pool import CompilePool, NvrtcMissing
from measurements.emulator import HostFailure, check_ready
from measurements.files.text import one_line
from measurements.runners.cuda.runner import CudaRunner, cuda_available, cuda_device
from measurements.store.store import Store
from search_spaces.hardware.devices import Device

Pool = TypeVar("Pool", bound=CompilePool)


class CannotCheck(ValueError):
    """This machine cannot run the check. The message is one sentence with the remedy."""


@dataclass(frozen=True)
class CheckOptions:
    """Options of a check.

    Attributes:
        limits: Allowed slowdown of entries without limits in the database.
        effort: Limits of the rounds of a timed check.
        static: Options of a static check.
        operators: Check only entries of these operators; empty for all.
        device: Check only entries of this device; None for all.
        against: Database with the baselines of a timed check. By default, the stored trials are the baselines.
        baseline: Python of another environment, which provides the baselines of a timed check.
        kernel_files: Files of the user's kernels in the database.
        baseline_kernel_files: Files of the user's kernels in the baseline environment.
        programs: The user's tile programs, FILE[:NAME].
        with_python: Python of another environment, whose compiler a static check compares with the installed compiler.
    """

    limits: SlowdownLimits = field(default_factory=SlowdownLimits)
    effort: ComparisonEffort = field(default_factory=ComparisonEffort)
    static: StaticOptions = field(default_factory=StaticOptions)
    operators: tuple[str, ...] = ()
    device: Device | None = None
    against: str = ""
    baseline: str = ""
    kernel_files: tuple[str, ...] = ()
    baseline_kernel_files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    with_python: str = ""


class CheckRun:
    """State of a check, from which a report can be written even if the check is interrupted.

    ``entries`` has the entries of the database; an entry that cannot be checked is replaced by a finding. ``done`` has
    the findings of the entries checked so far, in their order.
    """

    def __init__(self, name: str, kind: Literal["static", "timed", "configs"]) -> None:
        self.name, self.kind = name, kind
        self.entries: Sequence[CheckedEntry | CheckFinding] = ()
        self.done: list[CheckFinding] = []
        self.tools: Mapping[str, str] = {}
        self.left_out = ""  # line with the number of skipped trials that were verified with an earlier reference
        self._began = time.monotonic()

    def report(self, doubt: str = "") -> CheckReport:
        """Return the report. Entries that were not checked are uncertain, for the reason ``doubt``."""
        done = iter(self.done)
        findings = tuple(
            next(done, None) or one.finding(EntryStatus.UNCERTAIN, f"the check ended before this entry: {doubt}")
            if isinstance(one, CheckedEntry)
            else one
            for one in self.entries
        )
        seconds = time.monotonic() - self._began
        return CheckReport(self.name, self.kind, findings, one_line(doubt), self.tools, seconds, self.left_out)


def selected(store: Store, options: CheckOptions) -> list[CheckedEntry | CheckFinding]:
    """Return the selected entries. An entry that cannot be checked is replaced by a finding.

    Args:
        store: The database.
        options: Selection of entries, and the kernel files and programs that the entries need.

    Returns:
        Entries and findings.

    Raises:
        ValueError: A kernel file or program cannot be used.
        CannotCheck: The database has no such entry.
    """
    for file in options.kernel_files:
        KernelSpec.from_file(file).register()
    for source in options.programs:
        register_at(source)
    checked = entries(store, options.limits, operators=options.operators, device=options.device)
    stored = ", ".join(sorted({f"{s.operator} on {s.device}" for s in store.problems() if s.works}))
    if stored and not checked and (options.operators or options.device):
        selection = " or ".join(options.operators) or "any operator"
        where = f" on {options.device.name}" if options.device else ""
        raise CannotCheck(f"{store.name} has no schedule of {selection}{where}: use one of {stored}")
    return checked


def check_database(
    database: str | Path,
    options: CheckOptions,
    *,
    static: bool,
    on_progress: OnProgress = lambda note: None,
    run: CheckRun | None = None,
) -> CheckReport:
    """Check the entries of a database, without changing it.

    Args:
        database: A path or an SQLAlchemy URL.
        options: Selection of entries, and their baselines.
        static: If True, check only code, resources and results, which needs no GPU.
        on_progress: Function called after each entry.
        run: State of the check, which receives the findings even if this function raises an exception. Default: a new
            one.

    Returns:
        A finding for each entry, in the order of the entries.

    Raises:
        StoreError: The database cannot be used.
        CannotCheck: This machine cannot run the check.
    """
    run = run or CheckRun(str(database), "static" if static else "timed")
    with Store.open(database, create=False) as store:
        run.name = store.name
        run.entries = selected(store, options)
        run.left_out = store.current(store.problems())[1]
        if static:
            return static_report(run, options, on_progress)
        return replace(timed_report(store.name, run.entries, options, on_progress), left_out=run.left_out)


def static_report(run: CheckRun, options: CheckOptions, on_progress: OnProgress) -> CheckReport:
    """Check without a GPU that entries compile, need no more resources than recorded, and give correct results.

    Args:
        run: State of the check, whose entries are checked.
        options: Options of the emulation.
        on_progress: Function called after each entry, with a note for the user.

    Returns:
        A finding for each entry, in the order of the entries.

    Raises:
        CannotCheck: This machine cannot verify results.
    """
    good = [entry for entry in run.entries if isinstance(entry, CheckedEntry)]
    if good and options.static.emulate:
        try:
            check_ready()
        except HostFailure as error:
            raise CannotCheck(f"results cannot be verified on this machine: {error}; or use --no-emulate") from error
    try:
        other = OtherCompiler.of(options.with_python) if options.with_python else None
    except NoOtherCompiler as error:
        raise CannotCheck(str(error)) from error
    with _pool(CompilePool) as pool:
        run.tools = {"toolchain": pool.toolchain}
        findings = check_static(good, pool, options.static)
        if other is not None:
            run.tools = {**run.tools, "other_toolchain": other.toolchain}
            findings = check_upgrade(good, pool, other, options.static)
        for finding in findings:
            run.done.append(finding)
            on_progress("" if finding.verdict.judged and not finding.verdict.fails else finding.verdict.value)
    return run.report()


def timed_report(
    name: str, entries: Sequence[CheckedEntry | CheckFinding], options: CheckOptions, on_progress: OnProgress
) -> CheckReport:
    """Time the entries on this machine's GPU.

    Args:
        name: Name of the database, for the report.
        entries: Entries; a finding takes the place of an entry that cannot be checked.
        options: Baselines, and limits of the times.
        on_progress: Function called after each entry.

    Returns:
        A finding for each entry, in the order of ``entries``.

    Raises:
        CannotCheck: No GPU responds.
        StoreError: The database to compare with cannot be used.
    """
    if options.against:
        Store.open(
            options.against, create=False
        ).close()  # open the other database first, so that errors are reported before a GPU is used
    answers, why = cuda_available()
    if not answers:
        raise CannotCheck(f"a timed check needs a GPU, but none responds ({why}): use --static")
    device = cuda_device()
    with _pool(KnownPrograms) as pool:
        return timed_on(name, entries, options, on_progress, device, pool, lambda: CudaRunner(device, pool))


def timed_on(
    name: str,
    entries: Sequence[CheckedEntry | CheckFinding],
    options: CheckOptions,
    on_progress: OnProgress,
    device: Device,
    pool: KnownPrograms,
    start: Callable[[], TimingSession],
) -> CheckReport:
    """Time the entries on a GPU, in sessions that the function ``start`` starts.

    Args:
        name: Name of the database, for the report.
        entries: Entries; a finding takes the place of an entry that cannot be checked.
        options: Baselines, and limits of the times.
        on_progress: Function called after each entry.
        device: The GPU. Entries of other devices are not compared.
        pool: Compile pool for the kernels.
        start: Function that starts a session in a separate process.

    Returns:
        A finding for each entry, in the order of ``entries``.

    Raises:
        StoreError: The database to compare with cannot be used.
        BaselineError: The environment to compare with does not respond.
    """
    began = time.monotonic()
    good = [entry for entry in entries if isinstance(entry, CheckedEntry)]
    entries_of_device = [entry for entry in good if entry.device.name == device.name]
    baselines: Baselines = RecordedBaseline()
    if options.baseline:
        baselines = EnvironmentBaseline(
            options.baseline, entries_of_device, pool, options.baseline_kernel_files, options.programs
        )
    other = Store.open(options.against, create=False) if options.against else None
    try:
        if other is not None:
            baselines = DatabaseBaseline(other)
        done, doubt = check_timed(good, device, start, pool, baselines, options.effort, on_progress)
    finally:
        if other is not None:
            other.close()
    tools = {"device": device.name, "toolchain": pool.toolchain}
    return CheckReport(name, "timed", _in_order(entries, done), doubt, tools, time.monotonic() - began)


def _pool(kind: type[Pool]) -> Pool:
    try:
        return kind()
    except NvrtcMissing as error:
        raise CannotCheck(str(error)) from error


def _in_order(entries: Sequence[CheckedEntry | CheckFinding], done: Sequence[CheckFinding]) -> tuple[CheckFinding, ...]:
    """Merge the findings of unchecked and checked entries, in the order of the database."""
    checked = iter(done)
    return tuple(next(checked) if isinstance(one, CheckedEntry) else one for one in entries)
