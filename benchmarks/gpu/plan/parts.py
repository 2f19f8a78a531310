"""The parts of a plan, in order of importance.

Each part is a function of a ``Session``. It processes its entries, skips entries that an earlier run has finished, and
stops when its time is over. Results are written after every entry.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.samplers.random import RandomSampler
from autosched.samplers.seeded import SeededSampler
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from benchmarks.gpu.journal import Journal, read
from benchmarks.gpu.plan import counters, device_calls, device_child
from benchmarks.gpu.plan.prepared import Prepared, finals
from benchmarks.gpu.plan.problems import LANGUAGE, SUSTAINED, YARDSTICKS
from benchmarks.gpu.plan.results import Results
from benchmarks.gpu.table import short_name
from measurements.runners.base import Candidate, Entrant
from measurements.runners.cuda.runner import CudaRunner
from measurements.trials import recording
from measurements.trials.measurement import Status
from measurements.trials.recording import Recording
from measurements.trials.timing_statistics import Ratio
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule

ENTRANTS_OF_FINALS = 4
_ROUNDS = 20
_SUSTAINED_SECONDS = 5.0


@dataclass
class Session:
    """One run of a part.

    Attributes:
        prepared: Prepared problems to measure.
        runner: Runner that measures the prepared cubins.
        results: Results of this run and of earlier runs.
        out: Folder for all files that are written.
        seconds: Time limit of this part in seconds.
        say: Function that prints a line.
    """

    prepared: Prepared
    runner: CudaRunner
    results: Results
    out: Path
    seconds: float
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    @property
    def remaining(self) -> float:
        return max(self.until - time.monotonic(), 0.0)

    def candidate(self, problem: Problem, schedule: Schedule) -> Candidate:
        """Generate the kernel of a schedule."""
        return Candidate(problem, schedule, _generate(problem, schedule, self.prepared.device))

    def pending(self, part: str, keys: Sequence[str]) -> list[str]:
        """Return the keys without a result. Print a line if all keys have results."""
        missing = [key for key in keys if not self.results.has(part, key)]
        if not missing:
            self.say(f"{part}: all entries already have results")
        return missing


Part = Callable[[Session], None]


def yardsticks(session: Session) -> None:
    """Time copies and read-only sums of several sizes, and record the clock during a long matmul."""
    by_key = {short_name(problem): problem for problem in YARDSTICKS if problem in session.prepared.schedules}
    sustained = "sustained" if SUSTAINED in session.prepared.schedules else None
    for key in session.pending("yardsticks", [*by_key, *filter(None, [sustained])]):
        if not session.remaining:
            return session.say(f"yardsticks: skipped {key} for lack of time")
        if key == sustained:
            rounds = _sustained(session)
            session.results.add("yardsticks", key, rounds=rounds)
            session.say(f"{key}: {_microseconds(rounds[-1]['seconds'])} at {rounds[-1]['clock_mhz']} MHz")
            continue
        problem = by_key[key]
        candidate = session.candidate(problem, session.prepared.schedules[problem][0])
        names = ("autosched", "copy", "torch")
        entrants = session.runner.compare([candidate], rounds=_ROUNDS, library=False, other_baselines=names[1:])
        rows = {name: _entrant(entrant) for name, entrant in zip(names, entrants, strict=True)}
        session.results.add("yardsticks", key, bytes=problem.min_bytes, entrants=rows)
        session.say(f"{key}: {', '.join(_rate(name, row, problem.min_bytes) for name, row in rows.items())}")


def _sustained(session: Session) -> list[dict[str, Any]]:
    """Time one matmul repeatedly for some seconds, and record the clock with each time."""
    candidate = session.candidate(SUSTAINED, session.prepared.schedules[SUSTAINED][0])
    began, rounds = time.monotonic(), list[dict[str, Any]]()
    while not rounds or time.monotonic() - began < min(_SUSTAINED_SECONDS, session.remaining):
        ours, library = session.runner.compare([candidate], rounds=8)
        rounds.append(
            {
                "at": time.monotonic() - began,
                "seconds": _median(ours),
                "library": _median(library),
                "clock_mhz": ours.clock_mhz,
            }
        )
    return rounds


def trials(session: Session) -> None:
    """Measure the prepared schedules of each problem, each alternating with the fastest schedule so far."""
    problems = {
        short_name(problem): problem for problem, chosen in session.prepared.schedules.items() if len(chosen) > 1
    }
    keys = session.pending("trials", list(problems))
    for i, key in enumerate(keys):
        share = session.remaining / (len(keys) - i)
        if session.remaining < 1.0:
            return session.say(f"trials: skipped {len(keys) - i} problems for lack of time")
        _measured(session, key, problems[key], share)


def _measured(session: Session, key: str, problem: Problem, seconds: float) -> None:
    device, schedules = session.prepared.device, session.prepared.schedules[problem]
    templates = templates_for(problem, device)
    space = templates.space(problem, device)
    task = SearchTask(problem, device, templates, space)
    path = session.out / "trials.jsonl"
    path.unlink(missing_ok=True)
    journal, began = Journal(path), time.monotonic()
    try:
        tuner = Tuner(
            TunerParts(
                RunIdentity.of(task, session.runner.provenance, None, 0),
                _WithoutComparing(session.runner),
                journal,
                SeededSampler(RandomSampler(space, 0), schedules, "plan", own_first=False),
                generate=_generate,
                complexity=task.num_changed,
                in_flight=InFlightLimit(compilers=os.cpu_count() or 1),
            )
        )
        result = tuner.run(SearchPlan(trials=len(schedules), seconds=seconds, final_seconds=0.0))
    finally:
        journal.close()
        save(session.out, path)
    took = time.monotonic() - began
    best = min((r for r in result.trials if r.seconds), key=lambda r: r.seconds or math.inf, default=None)
    if result.stopped:
        session.results.add("trials", key, problem=problem.to_json(), cut=True, reason=result.stopped)
        raise RuntimeError(result.stopped)
    done = [r for r in result.trials if r.schedule in set(schedules)]
    session.results.add(
        "trials",
        key,
        problem=problem.to_json(),
        seconds=took,
        measured=len(done),
        prepared=len(schedules),
        failures=result.failures,
        wrong=sum(r.status is Status.WRONG_RESULT for r in done),
        best=None if best is None else best.seconds,
        order=[
            {"template": r.schedule.template, "schedule": r.schedule.to_json()}
            for r in sorted((r for r in done if r.seconds), key=lambda r: r.seconds or math.inf)[:ENTRANTS_OF_FINALS]
        ],
    )
    fastest = _microseconds(None if best is None else best.seconds)
    session.say(f"{key}: {len(done)} trials in {took:.1f} s, best {fastest}")


def compare(session: Session) -> None:
    """Time the best schedules of each shape, interleaved with cuBLAS and the fastest algorithm of cuBLASLt."""
    measured = session.results.of("trials")
    problems = {short_name(problem): problem for problem in finals(session.prepared)}
    for key in session.pending("finals", list(problems)):
        if session.remaining < 1.0:
            return session.say(f"finals: skipped {key} for lack of time")
        problem = problems[key]
        order = [Schedule.from_json(r["template"], r["schedule"]) for r in measured.get(key, {}).get("order", ())]
        schedules = (order or list(session.prepared.schedules[problem]))[:ENTRANTS_OF_FINALS]
        candidates = [session.candidate(problem, schedule) for schedule in schedules]
        *ours, library, fastest = session.runner.compare(candidates, rounds=_ROUNDS, other_baselines=("cublaslt",))
        able = [entrant for entrant in ours if entrant.status is Status.OK]
        best = min(able, key=_median) if able else None
        ratios = {
            name: dataclasses.asdict(Ratio.paired(best.seconds, other.seconds))
            for name, other in (("library", library), ("cublaslt", fastest))
            if best is not None and other.status is Status.OK
        }
        session.results.add(
            "finals",
            key,
            problem=problem.to_json(),
            ours=[_entrant(e) | {"schedule": s.to_json()} for e, s in zip(ours, schedules, strict=True)],
            library=_entrant(library),
            cublaslt=_entrant(fastest),
            ratios=ratios,
            from_trials=bool(order),
        )
        text = ", ".join(f"{row['median']:.3f} of {name}'s time" for name, row in ratios.items())
        time_of_best = _microseconds(None if best is None else _median(best))
        session.say(f"{key}: {time_of_best}; {text or 'nothing to compare with'}")


def hardware_counters(session: Session) -> None:
    """Read hardware counters of some kernels with Nsight Compute, if it is installed."""
    for key in session.pending("counters", list(counters.KERNELS)):
        if session.remaining < 1.0:
            return session.say(f"counters: skipped {key} for lack of time")
        result = counters.profiled(key, session.prepared.folder, session.remaining)
        session.results.add("counters", key, **result)
        session.say(f"{key}: {counters.summary(result)}")


def host_time(session: Session) -> None:
    """Measure the host time of a call, for autosched and for torch."""
    for key, result in device_calls.timed("host", session.pending("host", device_child.HOST), session.remaining):
        session.results.add("host", key, **result)
        session.say(f"{key}: {device_calls.summary(result)}")


def language_models(session: Session) -> None:
    """Time operators of language models, next to torch's equivalents if there are any."""
    entries = {entry.key: entry for entry in LANGUAGE if entry.problem in session.prepared.schedules}
    calls: dict[str, str] = {}
    ours: dict[str, dict[str, Any]] = {}
    for key in session.pending("language", list(entries)):
        if session.remaining < session.seconds / 3:
            break  # the remaining time is for torch's calls
        entry = entries[key]
        schedules = session.prepared.schedules[entry.problem]
        best = None
        for i, measured in session.runner.measure([session.candidate(entry.problem, s) for s in schedules]):
            if measured.timing is not None and (best is None or measured.timing.median < best[0]):
                best = measured.timing.median, schedules[i].to_json()
        ours[key] = {"autosched": best and best[0] * 1e6, "schedule": best and best[1]}
        session.say(f"{key}: {_microseconds(best and best[0])}")
        if entry.torch_call:
            calls[json.dumps([entry.torch_call, entry.problem.to_json()])] = key
        else:
            session.results.add("language", key, ours=ours[key], reason=f"torch has {entry.torch_computes}")
    for call, result in device_calls.timed("language", list(calls), session.remaining) if calls else ():
        key = calls[call]
        session.results.add("language", key, ours=ours[key], torch_computes=entries[key].torch_computes, **result)
        session.say(f"{key}: {device_calls.summary(result)}")


PARTS: dict[str, tuple[Part, float]] = {
    "yardsticks": (yardsticks, 60.0),
    "trials": (trials, 300.0),
    "finals": (compare, 120.0),
    "counters": (hardware_counters, 90.0),
    "host": (host_time, 60.0),
    "language": (language_models, 150.0),
}
"""Each part's function, and its time limit in seconds."""


def _generate(problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
    return template(schedule.template).kernel(problem, schedule, device)


class _WithoutComparing:
    """A runner that measures but does not compare, so that a search ends without a comparison of finalists."""

    def __init__(self, runner: CudaRunner) -> None:
        self.name, self.provenance = runner.name, runner.provenance
        self.describe, self.fingerprint = runner.describe, runner.fingerprint
        self.measure, self.stream, self.close = runner.measure, runner.stream, runner.close


def save(out: Path, path: Path) -> None:
    """Append the trials of a journal to the recording file."""
    recordings = Recording.of(read(path))
    if recordings:
        recording.append(out / f"recordings{recording.SUFFIX}", recordings)
    path.unlink()


def _entrant(entrant: Entrant) -> dict[str, Any]:
    ok = entrant.status is Status.OK
    return {
        "status": entrant.status.value,
        "reason": entrant.reason,
        "median": _median(entrant) if ok else None,
        "seconds": list(entrant.seconds),
        "clock_mhz": entrant.clock_mhz,
    }


def _median(entrant: Entrant) -> float:
    return statistics.median(entrant.seconds) if entrant.seconds else math.inf


def _microseconds(seconds: float | None) -> str:
    return "none" if seconds is None or not math.isfinite(seconds) else f"{seconds * 1e6:.2f} us"


def _rate(name: str, row: dict[str, Any], size: int) -> str:
    return f"{name} {row['status']}" if row["median"] is None else f"{name} {size / row['median'] / 1e9:,.0f} GB/s"
