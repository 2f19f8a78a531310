"""Training data of a cost model, from databases and recordings."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cost_models.trees.observations import Observations, merged
from measurements.store.store import Store
from measurements.trials import recording
from measurements.trials.measurement import Provenance, Status
from measurements.trials.policy import DEFAULT, NONE
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import is_operator
from search_spaces.hardware.devices import UnknownDevice, device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import has_controls

# replayed times count as measured, because a GPU measured them earlier
KINDS: Mapping[str, frozenset[Provenance]] = {
    "measured": frozenset({Provenance.MEASURED, Provenance.REPLAYED}),
    "estimated": frozenset({Provenance.ESTIMATED}),
}

# problems of unknown operators, such as problems of kernel files, are skipped
UNKNOWN_OPERATOR = "of unknown operators"


@dataclass(frozen=True)
class TrainingData:
    """Measured or estimated times, as observations for training.

    ``left_out`` maps each reason to the number of observations that were skipped. ``other_kind_count`` is the number of
    observations of the other kind (estimated instead of measured, or vice versa).
    """

    observations: tuple[Observations, ...]
    left_out: Mapping[str, int]
    other_kind_count: int

    @property
    def rows(self) -> int:
        """Number of observations."""
        return sum(map(len, self.observations))


def gather(databases: Sequence[str | Path], recordings: Sequence[str | Path], kind: str) -> TrainingData:
    """Return all times of ``kind`` ("measured" or "estimated") in databases and recordings (``measurements.trials``).

    If several sources have the same schedule, the later source takes precedence. Raises StoreError and RecordingError,
    both ValueErrors, and OSError.
    """
    sources: list[Sequence[Trial]] = []
    for database in databases:
        with Store.open(database, create=False) as store:
            sources.append(store.trials())
    sources += [[r for recorded in recording.read(path) for r in recorded.trials] for path in recordings]
    left_out: Counter[str] = Counter()
    observations: list[Observations] = []
    other_kind_count = 0
    for trials in sources:
        selected = [r for r in trials if r.provenance in KINDS[kind] and _is_of_space(r.schedule)]
        other = [r for r in trials if r.ok and r.provenance not in KINDS[kind]]
        usable_keys = {key for key, r in {r.problem_key: r for r in other}.items() if _problem(r) is not None}
        other_kind_count += sum(r.problem_key in usable_keys for r in other)
        observations += observations_of(selected, left_out)
    return TrainingData(merged(observations), dict(left_out), other_kind_count)


def usable(data: TrainingData) -> TrainingData:
    """Return the data of those schedules that a current kernel template can generate and that have cost counts."""
    trials, left_out = [], Counter(data.left_out)
    for one in data.observations:
        now, num_unusable = one.usable()
        if now is not None:
            trials.append(now)
        if num_unusable:
            left_out["of schedules that this version cannot generate, or whose cost is not stated"] += num_unusable
    return TrainingData(tuple(trials), dict(left_out), data.other_kind_count)


def observations_of(trials: Iterable[Trial], left_out: dict[str, int]) -> list[Observations]:
    """Return the times of ``trials``, which must all have the same provenance.

    Skipped trials are counted in ``left_out`` by reason.
    """

    def leave_out(reason: str, times: int) -> None:
        left_out[reason] = left_out.get(reason, 0) + times

    by_key: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if trial.ok and trial.policy not in (NONE, DEFAULT):
            leave_out(f"timed with another policy than the default ({trial.policy})", 1)
        else:
            by_key.setdefault((trial.problem_key, trial.device), []).append(trial)
    observations = []
    for (_, name), group in by_key.items():
        times = _times(group)
        if not times:
            continue
        problem = _problem(group[0])
        try:
            row = device(name)
        except UnknownDevice:
            leave_out(f"of {name}, which is not in the device table", len(times))
            continue
        if problem is None:
            leave_out(_why_not(group[0]), len(times))
            continue
        observations.append(Observations(problem, row, tuple(r.schedule for r in times), tuple(times.values())))
    return observations


def _is_of_space(schedule: Schedule) -> bool:
    """Return False if the trial is of the vendor's library or has compiler controls, which models do not support."""
    return not is_library(schedule) and not has_controls(schedule)


def _why_not(trial: Trial) -> str:
    """Return the reason why this version cannot read the problem of a trial."""
    return "of problems that this version does not support" if is_operator(trial.operator) else UNKNOWN_OPERATOR


def _times(trials: Sequence[Trial]) -> dict[Trial, float]:
    """Return the newest working trial of each schedule, and its time.

    The time is from the last re-measurement of the same kernel. Without a re-measurement, it is the median of the
    kernel's times.
    """
    by_schedule: dict[str, list[Trial]] = {}
    for trial in trials:
        by_schedule.setdefault(trial.schedule.key(), []).append(trial)
    times = {}
    for tried in by_schedule.values():
        newest = tried[-1]
        wrong = any(r.status is Status.WRONG_RESULT and r.kernel_digest == newest.kernel_digest for r in tried)
        if newest.ok and not wrong:
            same = [r for r in tried if r.ok and r.kernel_digest == newest.kernel_digest]
            same = [r for r in same if r.rank is not None][-1:] or same
            times[newest] = statistics.median(r.seconds for r in same if r.seconds is not None)
    return times


def _problem(trial: Trial) -> Problem | None:
    try:
        problem = trial.problem
    except ValueError:
        return None
    return problem if problem.key() == trial.problem_key else None
