"""Timed check on a GPU. Each run interleaves the baseline, the candidate, the baseline again, and a control.

The candidate is the kernel that the current code and compiler generate from a stored schedule. The caller provides the
baseline, which comes from the stored trial, another database, or another environment. Candidate and baseline run on the
same machine with the same driver, so neither of these causes a difference.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from autosched.regression.entries import ENTRY_ERRORS, LIBRARY_WON, CheckedEntry
from autosched.regression.procedure import ComparisonEffort, ComparisonOutcome, flagged, judged, until_decided
from autosched.regression.report import CheckFinding, EntryStatus
from autosched.regression.since_tuning import since
from autosched.regression.slowdown import TimeComparison, Times
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, CompilePool, why_not_launched
from measurements.emulator import HostFailure
from measurements.runners.base import Candidate, Comparing, Entrant, RunnerStopped
from measurements.trials import timing_statistics
from measurements.trials.measurement import Status
from measurements.trials.trial import CONTROLS
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device


class TimingSession(Comparing, Protocol):
    """A process that measures times on one GPU."""

    def close(self) -> None:
        """Release the GPU."""


@dataclass(frozen=True)
class Baseline:
    """Reference kernel for an entry. The current kernel of the entry is timed against it.

    ``candidate`` is the reference kernel. If the current kernel is slower, ``reason`` describes how the kernels differ.
    """

    candidate: Candidate
    reason: str


class Baselines(Protocol):
    """Interface of a function that provides the baseline of an entry."""

    def __call__(self, entry: CheckedEntry, candidate: Candidate) -> Baseline | str:
        """Return the baseline of an entry.

        Args:
            entry: Best trial of a problem, with the data for its check.
            candidate: Kernel that the current code generates for the entry.

        Returns:
            The kernel whose time is compared with the candidate's time. If there is none, a message with the reason.
        """


OnProgress = Callable[[str], None]  # called after each finished entry, with a message for the user, or ""


# Errors of the machine or session. Earlier verdicts remain valid, and the remaining entries are uncertain.
_MACHINE_ERRORS = (RunnerStopped, HostFailure, MemoryError)


class _Failed(Exception):
    """Raised if a kernel of an entry cannot be timed. Contains the verdict on the entry, and the reason."""

    def __init__(self, verdict: EntryStatus, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


@dataclass(frozen=True)
class _Pair:
    entry: CheckedEntry
    baseline: Candidate
    candidate: Candidate
    reason: str
    same_code: bool


def check_timed(
    entries: Sequence[CheckedEntry],
    device: Device,
    start: Callable[[], TimingSession],
    pool: CompilePool,
    baselines: Baselines,
    effort: ComparisonEffort,
    on_progress: OnProgress = lambda note: None,
) -> tuple[list[CheckFinding], str]:
    """Time each entry interleaved with its baseline.

    Entries that are slower in the first session are timed again in a second session, in a separate process.

    Args:
        entries: Entries to time.
        device: The GPU. Entries of other devices cannot be compared.
        start: Function that starts a session.
        pool: Compile pool for the kernels.
        baselines: Function that returns the baseline of an entry.
        effort: Number of rounds per step, and limits.
        on_progress: Function called with the verdict on each finished entry.

    Returns:
        A finding for each entry, in the order of the entries, and the reason if the whole run is unreliable, else "".
    """
    findings: dict[int, CheckFinding] = {}
    pairs: dict[int, _Pair] = {}
    stopped = ""
    for i, entry in enumerate(entries):
        try:
            pair = _pair(entry, device, pool, baselines)
        except ENTRY_ERRORS as error:
            pair = entry.unchecked(error)
        except _MACHINE_ERRORS as error:
            stopped = _reason(error)
            break
        if isinstance(pair, CheckFinding):
            findings[i] = pair
            on_progress(pair.verdict.value)
        else:
            pairs[i] = pair
    first: dict[int, TimeComparison] = {}
    seconds: dict[int, float] = {}
    timers: dict[int, _Timer] = {}

    def timed(session: TimingSession, i: int) -> TimeComparison:
        pair, began = pairs[i], time.monotonic()
        timer = _Timer(session, pair)
        comparison = until_decided(timer, pair.entry.limits, pair.entry.noise, effort)
        seconds[i] = seconds.get(i, 0.0) + time.monotonic() - began
        timers[i] = timer
        return comparison

    with _session(start) as session:
        for i, pair in pairs.items():
            try:
                first[i] = timed(session, i)
            except _Failed as failure:
                findings[i] = pair.entry.finding(failure.verdict, str(failure))
            except ENTRY_ERRORS as error:
                findings[i] = pair.entry.unchecked(error)
            except _MACHINE_ERRORS as error:
                stopped = _reason(error)
                break
            on_progress("" if i in first and first[i].decided else "not decided")
    repeated: dict[int, TimeComparison] = {}
    suspects = flagged(first)
    if suspects and not stopped:
        with _session(start) as session:
            for i in suspects:
                try:
                    repeated[i] = timed(session, i)
                except _Failed as failure:
                    findings[i] = pairs[i].entry.finding(failure.verdict, f"in a second process: {failure}")
                except ENTRY_ERRORS as error:
                    findings[i] = pairs[i].entry.unchecked(error)
                except _MACHINE_ERRORS as error:
                    stopped = _reason(error)
                    break
    judgements, doubt = judged(first, repeated, {i: pair.entry.limits for i, pair in pairs.items()})
    for i, judgement in judgements.items():
        if i not in findings:
            finding = _finding(pairs[i], judgement, timers[i])
            findings[i] = dataclasses.replace(finding, check_seconds=seconds[i])
    for i, entry in enumerate(entries):
        if i not in findings:
            findings[i] = entry.finding(EntryStatus.CANNOT_COMPARE, f"the run ended before this entry: {stopped}")
    return [findings[i] for i in range(len(entries))], stopped or doubt


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


@contextmanager
def _session(start: Callable[[], TimingSession]) -> Iterator[TimingSession]:
    session = start()
    try:
        yield session
    finally:
        session.close()


def _pair(entry: CheckedEntry, device: Device, pool: CompilePool, baselines: Baselines) -> _Pair | CheckFinding:
    """Return the compiled baseline and candidate of an entry, or a finding with the reason if either is missing."""
    if entry.device.name != device.name:
        return entry.finding(
            EntryStatus.CANNOT_COMPARE, f"the entry is for {entry.device.name}, but this machine's GPU is {device.name}"
        )
    trial = entry.trial
    if is_library(trial.schedule):
        return entry.finding(EntryStatus.CANNOT_COMPARE, LIBRARY_WON)
    try:
        kernel = template(trial.schedule.template).kernel(entry.problem, trial.schedule, device)
    except ValueError as error:
        return entry.finding(EntryStatus.BROKEN, f"the trial's schedule is no longer valid: {error}")
    candidate = Candidate(entry.problem.under(trial.schedule.values), trial.schedule, kernel)
    program = _compiled(candidate, device, pool)
    if isinstance(program, str):
        return entry.finding(EntryStatus.BROKEN, program)
    baseline = baselines(entry, candidate)
    if isinstance(baseline, str):
        return entry.finding(EntryStatus.CANNOT_COMPARE, baseline)
    other = _compiled(baseline.candidate, device, pool)
    if isinstance(other, str):
        return entry.finding(EntryStatus.CANNOT_COMPARE, f"the baseline cannot be timed: {other}")
    same = _same_code(program, other) and kernel.launch_json() == baseline.candidate.kernel.launch_json()
    return _Pair(entry, baseline.candidate, candidate, baseline.reason, same)


def _compiled(candidate: Candidate, device: Device, pool: CompilePool) -> Compiled | str:
    program = pool.compile(candidate.kernel, device.arch)
    if isinstance(program, CompileFailure):
        return f"the kernel does not compile ({program.status}): {program.reason}"
    reason = why_not_launched(candidate.kernel, program, device)
    return program if reason is None else f"the kernel does not fit on the device: {reason}"


def _same_code(one: Compiled, other: Compiled) -> bool:
    if one.digest == other.digest:
        return True
    return one.code is not None and other.code is not None and one.code.sass_digest == other.code.sass_digest


class _Timer:
    """Function (``procedure.Measure``) that times one entry in one session, with the first control that works."""

    def __init__(self, session: TimingSession, pair: _Pair) -> None:
        self._session, self._pair = session, pair
        self._controls = list(CONTROLS)
        self._programs = [pair.baseline, pair.candidate, pair.baseline]
        self.medians = (0.0, 0.0)  # median seconds of baseline and candidate
        self.control: tuple[str, float] | None = None  # name of the control and its median seconds

    def __call__(self, rounds: int) -> Times:
        """Time further rounds.

        Raises:
            _Failed: A kernel cannot be timed.
            RunnerStopped: The runner cannot continue.
        """
        while True:
            control = self._controls[0] if self._controls else None
            entrants = self._session.compare(
                self._programs,
                rounds=rounds,
                library=control == "library",
                other_baselines=() if control in (None, "library") else (control,),
            )
            if all(entrant.status is Status.OK for entrant in entrants):
                baseline, candidate, repeated = (entrant.seconds for entrant in entrants[:3])
                self.medians = statistics.median(baseline), statistics.median(candidate)
                self.control = None if control is None else (control, statistics.median(entrants[3].seconds))
                return Times(baseline, candidate, repeated, entrants[3].seconds if control is not None else ())
            if all(entrant.status is Status.OK for entrant in entrants[:3]):
                self._controls.pop(0)  # this control is not available, so try the next control
                continue
            self._blame(entrants)
            if not self._controls:
                raise _Failed(EntryStatus.UNCERTAIN, f"the kernels run alone, but not together: {entrants[0].reason}")
            self._controls.pop(0)  # the control may be the cause of the failure, so try the next control

    def _blame(self, entrants: Sequence[Entrant]) -> None:
        """Run each kernel alone, to identify the one that fails. Raises _Failed."""
        alone = self._session.compare([self._pair.candidate], rounds=1, library=False)[0]
        if alone.status is not Status.OK:
            wrong = alone.status is Status.WRONG_RESULT
            raise _Failed(EntryStatus.WRONG if wrong else EntryStatus.BROKEN, f"{alone.status}: {alone.reason}")
        alone = self._session.compare([self._pair.baseline], rounds=1, library=False)[0]
        if alone.status is not Status.OK:
            raise _Failed(EntryStatus.CANNOT_COMPARE, f"its baseline fails ({alone.status}): {alone.reason}")


def _finding(pair: _Pair, judgement: ComparisonOutcome, timer: _Timer) -> CheckFinding:
    last = judgement.again or judgement.comparison
    verdict, reasons = EntryStatus(judgement.verdict.value), [judgement.reason]
    changed = judgement.verdict in (timing_statistics.SpeedChange.SLOWER, timing_statistics.SpeedChange.FASTER)
    if pair.same_code and changed:
        verdict = EntryStatus.UNCERTAIN
        reasons.append("candidate and baseline have the same machine code, so the machine causes the difference")
    elif changed:
        reasons.append(pair.reason)
    numbers: dict[str, float | int | str] = {
        "limit": last.limit,
        "noise": max(last.noise.high - 1, 1 / last.noise.low - 1) if last.noise.low else "unknown",
        "p": last.p,
        "rounds": last.rounds,
        "lost_seconds": last.lost_seconds,
        "same_machine_code": "yes" if pair.same_code else "no",
    }
    if last.control is not None:
        numbers["control_over_baseline"] = last.control.median
    then = pair.entry.at_tuning
    name, control_seconds = timer.control or ("", 0.0)
    if then is not None and last.control is not None and then.control.name == name:
        moved = since(then, last.ratio, last.control, control_seconds, last.limit)
        numbers[f"against_{name}_since_tuning"] = moved.against_control
        numbers[f"{name}_since_tuning"] = moved.control
        reasons += moved.reasons
        if moved.slower and not verdict.fails:
            verdict = EntryStatus.UNCERTAIN
    return pair.entry.finding(
        verdict,
        *reasons,
        ratio=last.ratio,
        baseline_seconds=timer.medians[0],
        candidate_seconds=timer.medians[1],
        numbers=numbers,
    )


def noises(findings: Sequence[CheckFinding]) -> Mapping[str, float]:
    """Map each entry's name to the noise between the two runs of its baseline, to be stored in the database."""
    return {f.name: noise for f in findings if isinstance(noise := f.numbers.get("noise"), float)}
