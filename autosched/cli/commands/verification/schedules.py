"""``autosched verify``: run candidates in the emulator and compare every element with the float64 reference.

``--json``: ``device``, ``seed``, ``passed``, ``failed``, ``unverified``, ``seconds`` (of the whole run),
``interrupted`` (by Ctrl-C), and ``candidates``. Each candidate has ``problem``, ``emulated_problem``, ``schedule``,
``ok``, ``status``, ``reason``, ``findings``, ``shared_sites``, ``global_sites`` (as in ``measurements.emulator``),
``seconds``, and:

- ``error_over_tolerance`` and ``max_abs_error``: null if the kernel did not finish
- ``runs``: the result for each kind of inputs
- ``coverage`` (full verification only): runs at the true size, with many tiles, and at addresses beyond 2^32, or why
such runs are missing
- ``stored_verification`` (with --db): state of the stored verification before and after this run

All times are times of the emulation, not of a kernel on a GPU.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autosched.cli.answers import CommandAnswer, Output, give, write_files
from autosched.cli.commands.verification.cases import status_of
from autosched.cli.commands.verification.schedule_results import case, print_table, to_json, word
from autosched.cli.options import schedule_file
from autosched.cli.options.devices import DEVICE_NOTE, target
from autosched.cli.options.groups import grouped
from autosched.cli.options.launch import LaunchesOption, order_from
from autosched.cli.options.problem import maybe_problem, problem_from, whole_number
from autosched.cli.options.schedule_file import KEYS
from autosched.cli.options.templates import TemplateOption
from autosched.cli.options.verification import Findings, VerificationEffort
from autosched.cli.terminal import interrupts
from autosched.cli.terminal.console import show_readings, stderr_console, stdout_console
from autosched.cli.terminal.errors import MOST_SAMPLES, MOST_SEED, MOST_WORKERS, InputError, bad_input, listed, within
from autosched.cli.terminal.output import say
from autosched.cli.terminal.progress import Counter as Progress
from autosched.reporting import formatting
from autosched.reporting.ci import Summary
from autosched.reporting.exit_status import ExitStatus
from autosched.reporting.readings import readings
from autosched.verify.launch_plan import TIME_LIMIT, LaunchRun
from autosched.verify.runs import LIMIT_TEXT, VerifySettings
from autosched.verify.schedules import verify as emulate_all
from autosched.verify.verdict import Verdict
from measurements.emulator import check_ready
from measurements.files.text import without_password
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template as template_named
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:  # imported lazily, because most verifications use no database
    from autosched.cli.options.stored_verifications import StoredVerification
    from measurements.store.store import Store
    from measurements.trials.trial import Trial

DEFAULT_SAMPLE = 20
REQUESTED_RUN = "requested"  # name of the additional run; --order and --turns choose its order


@grouped
def verify(  # noqa: D103  (its docstring is assigned below)
    operator: Operator,
    values: Mapping[str, Any],
    *,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="DB", help="Database of the schedules to verify, fastest first (default: sample the space)."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            parser=whole_number,
            metavar="N",
            help=f"Number of schedules to verify: samples of the space (default {DEFAULT_SAMPLE}), or the fastest ones "
            "in the database (default all).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the sample and of the inputs.")
    ] = 0,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            metavar="FILE",
            help="Verify this one schedule. FILE (- for stdin) contains the schedule: a JSON object of its parameters, "
            f"or JSON output of autosched with one schedule under {listed(KEYS, 'or')}.",
        ),
    ] = None,
    effort: VerificationEffort,
    findings: Findings,
    template: TemplateOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            parser=whole_number,
            metavar="W",
            help="Candidates emulated in parallel (default: one per core).",
        ),
    ] = None,
    launches: LaunchesOption = 1,
    output: Output,
) -> int:
    order = order_from(findings.order, findings.turns, launches)
    requested_run = LaunchRun(REQUESTED_RUN, order, launches, findings.perturb)
    settings = VerifySettings(
        "full" if effort.full else "quick", seed, effort.seconds(TIME_LIMIT),
        launch=None if requested_run == LaunchRun(REQUESTED_RUN) and findings.order is None else requested_run,
        suppressions=findings.suppressions(),
        batch_invariant=effort.batch_invariant,
    )  # fmt: skip
    notes_fail = findings.notes_fail()
    if db is not None and (settings.launch or settings.suppressions):
        raise InputError(
            "--order, --turns, --launches, --perturb and --suppress cannot be combined with --db: stored "
            "verifications have "
            "fixed orders"
        )
    if schedule is not None and not (db is None and sample is None):
        raise InputError("--schedule selects one schedule: leave out --sample and --db")
    if sample is not None:
        within("--sample", sample, 1, MOST_SAMPLES)
    within("--seed", seed, 0, MOST_SEED)
    if workers is not None:
        within("--workers", workers, 1, MOST_WORKERS)
    output.check([db if db is not None else schedule])
    where = target(effort.device)
    if schedule is not None:
        work = _work_of_file(problem_from(operator, values), where, template, schedule)
    elif db is None:
        work = _sampled(problem_from(operator, values), where, template, sample or DEFAULT_SAMPLE, seed)
    else:
        work = _of_database(db, operator, maybe_problem(operator, values), where, sample)
    check_ready()  # raises an error before anything is printed, if this machine cannot emulate
    started = time.monotonic()
    console = stdout_console()
    interrupted = False
    try:
        with interrupts.raised():
            for problem, schedules in work.jobs:
                if not output.json:
                    console.print(f"{formatting.one_line(problem)} on {where.name}")
                    show_readings(console, problem)
                    console.print(f"{formatting.plural(len(schedules), 'schedule')} {work.origin}")
                results = work.begin(problem)
                _emulate(problem, schedules, where, workers, settings, results)
                work.keep_verifications(problem)
                if not output.json:
                    print_table(console, problem, results)
                    for line in work.verification_lines(problem):
                        console.print(line)
    except KeyboardInterrupt:
        interrupted = True
    # if Ctrl-C arrives after the last result, the run is complete
    interrupted = interrupted and len(work.results) < work.num_requested
    seconds = time.monotonic() - started
    if not work.jobs:
        say(f"{without_password(str(db))} has no matching schedule for {where.name}: tune first, or leave out --db")
    summary = work.summary(operator.name, seconds, interrupted, notes_fail)
    document = {"device": where.name, "seed": seed, **work.to_json(seconds, interrupted)}
    write_files(summary, output)

    def text(console: Console) -> None:
        if work.jobs:
            console.print(summary.conclusion)

    return give(CommandAnswer(summary, document, text), output)


verify.__doc__ = f"""Verify that code is correct, without a GPU.

Each schedule is emulated, and every element is compared with a float64 reference within the problem's error bound.
Inputs are random numbers, and also NaN, infinities, ties, huge values and other special cases. Your own kernels run on
several random inputs that fit the description in their file. Races, accesses out of bounds and bank conflicts are
reported, too. A problem too large to emulate is reduced to a few tiles with the same remainders, or to the size in
[proxy] of a kernel file. Runs on random inputs are added by --order, --turns, --launches and --perturb. {DEVICE_NOTE}
"""


@dataclass
class _Work:
    """Candidates of one command by problem, and the results of the candidates that were emulated so far."""

    jobs: Sequence[tuple[Problem, Sequence[Schedule]]]
    origin: str
    store: Store | None = None
    trials: Mapping[tuple[Problem, Schedule], Trial] = field(default_factory=dict)
    done: list[tuple[Problem, list[Verdict]]] = field(default_factory=list)
    verifications: dict[tuple[Problem, Schedule], StoredVerification] = field(default_factory=dict)

    @property
    def num_requested(self) -> int:
        return sum(len(schedules) for _, schedules in self.jobs)

    @property
    def results(self) -> list[Verdict]:
        return [v for _, verifications in self.done for v in verifications]

    def begin(self, problem: Problem) -> list[Verdict]:
        """Make ``problem`` the current problem, and return the list to which the problem's results are appended."""
        self.done.append((problem, []))
        return self.done[-1][1]

    def keep_verifications(self, problem: Problem) -> None:
        """Store the new verifications of the current problem if its schedules come from a database."""
        if self.store is not None:
            from autosched.cli.options.stored_verifications import keep_verification

            for v in self.done[-1][1]:
                self.verifications[problem, v.schedule] = keep_verification(
                    self.store, self.trials[problem, v.schedule], v
                )

    def verification_lines(self, problem: Problem) -> list[str]:
        """Return lines of text about the stored verifications of ``problem``."""
        if self.store is None:
            return []
        from autosched.cli.options.stored_verifications import verification_lines

        stored = [self.verifications.get((problem, v.schedule)) for v in self.done[-1][1]]
        return verification_lines([verification for verification in stored if verification is not None])

    def conclusion(self, seconds: float, interrupted: bool) -> str:
        """Return the conclusion as one line of text."""
        counts, total = Counter(map(word, self.results)), len(self.results)
        passed = f"all {total} pass" if total else "nothing was verified"
        failures = (f"{counts[kind]} of {total} {kind}" for kind in ("FAIL", "unverified") if counts[kind])
        verdict = ", ".join(failures) or passed
        stopped = f"stopped before all {self.num_requested} schedules were verified: " if interrupted else ""
        return f"{stopped}{verdict}, in {formatting.duration(seconds)}"

    def summary(self, operator: str, seconds: float, interrupted: bool, notes: bool = False) -> Summary:
        """Return the summary of all emulated candidates. If ``notes`` is True, a note counts as a failure."""
        cases = tuple(case(problem, k, v, notes) for problem, results in self.done for k, v in enumerate(results, 1))
        status = ExitStatus.STOPPED if interrupted else status_of(cases)
        return Summary("verify", "schedules", operator, status, self.conclusion(seconds, interrupted), cases, seconds)

    def to_json(self, seconds: float, interrupted: bool) -> dict[str, Any]:
        counts = Counter(map(word, self.results))
        candidates = []
        for problem, verifications in self.done:
            for v in verifications:
                verification = self.verifications.get((problem, v.schedule))
                candidates.append(
                    {
                        **to_json(problem, v),
                        "stored_verification": None if verification is None else asdict(verification),
                    }
                )
        notes = dict.fromkeys(note for problem, _ in self.done for note in readings(problem))
        return {
            **({"notes": list(notes)} if notes else {}),
            "passed": counts["pass"],
            "failed": counts["FAIL"],
            "unverified": counts["unverified"],
            "seconds": seconds,
            "interrupted": interrupted,
            "candidates": candidates,
        }


def _work_of_file(problem: Problem, device: Device, template: Sequence[str] | None, file: str) -> _Work:
    """Return a ``_Work`` with the single schedule of a file.

    The schedules of the space are not counted, because counting is slow.
    """
    with bad_input():
        usable = templates_for(problem, device, template or None)
    schedule = schedule_file.read(file, {t.name: t.space(problem, device).parameters for t in usable})
    with bad_input():
        usable.of(schedule).config(problem, schedule, device)
    return _Work([(problem, [schedule])], "from " + ("stdin" if file == "-" else file))


def _sampled(problem: Problem, device: Device, template: Sequence[str] | None, count: int, seed: int) -> _Work:
    """Return a ``_Work`` with random schedules from the space of ``problem``."""
    with bad_input():
        usable = templates_for(problem, device, template or None)
    schedules = usable.space(problem, device).sample(count, seed)
    if hasattr(problem, "file"):  # imported lazily, because only users' kernels need this module
        from autosched.user_kernels.entry import check_entry

        check_entry(problem, schedules, device)
    return _Work([(problem, schedules)], f"sampled with seed {seed}")


def _of_database(db: str, operator: Operator, problem: Problem | None, device: Device, most: int | None) -> _Work:
    """Return a ``_Work`` with the stored schedules of ``problem``; if it is None, of all problems of ``operator``."""
    from measurements.store.store import Store  # imported lazily, because the store imports sqlalchemy

    store = Store.open(db, create=False)
    stored = _stored(store, operator, problem, device, most)
    trials = {(one, trial.schedule): trial for one, stored_trials in stored for trial in stored_trials}
    jobs = [(one, [trial.schedule for trial in stored_trials]) for one, stored_trials in stored]
    return _Work(jobs, f"stored in {store.name}", store, trials)


def _stored(
    store: Store, operator: Operator, problem: Problem | None, device: Device, most: int | None
) -> list[tuple[Problem, list[Trial]]]:
    """Return each problem's stored trials that have a time: one per schedule, sorted by provenance, then by time."""
    from autosched.cli.options.stored import refuse_unusable
    from measurements.trials.measurement import Status

    if problem is not None:
        problems = [problem]
    else:
        summaries, left_out = store.current(s for s in store.problems(operator.name) if s.device == device.name)
        if left_out:
            say(left_out)
        problems = list(dict.fromkeys(map(store.problem, summaries)))
    jobs = []
    for one in problems:
        trials = [r for r in store.trials(one, device.name, status=Status.OK) if not is_library(r.schedule)]
        ranked = sorted(trials, key=lambda r: (list(formatting.PROVENANCE_NOTE).index(r.provenance), r.seconds or 0.0))
        fastest = list({r.schedule.key(): r for r in reversed(ranked)}.values())[::-1][:most]
        for trial in fastest:
            refuse_unusable(store.name, one, trial, device)
        if fastest:
            jobs.append((one, fastest))
    return jobs


def _emulate(
    problem: Problem,
    schedules: Sequence[Schedule],
    device: Device,
    workers: int | None,
    settings: VerifySettings,
    results: list[Verdict],
) -> None:
    """Emulate schedules and append each result to ``results``."""
    counts: Counter[str] = Counter()
    with Progress(stderr_console(), "emulated", len(schedules), LIMIT_TEXT) as progress:
        used = TemplateSet([template_named(name) for name in dict.fromkeys(s.template for s in schedules)])
        emulated = emulate_all(used, problem, schedules, device, settings, workers=workers)
        for result in emulated:
            results.append(result)
            counts[word(result)] += 1
            progress.advance(", ".join(f"{counts[kind]} {kind}" for kind in ("FAIL", "unverified") if counts[kind]))
