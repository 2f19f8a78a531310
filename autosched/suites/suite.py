"""Tune many problems under one budget. Each chunk of trials goes to the problem with the largest expected saving."""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.dispatch.database import device_name
from autosched.tuning import tune as tuner
from autosched.tuning.result import CommonFailure, Observer, SoFar, TuneResult
from measurements.files.bounded import read_bounded
from measurements.store.errors import StoreError
from measurements.store.store import Store
from measurements.trials.trial import Trial
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem, whole_number

CHUNK = 16  # number of trials in a chunk; chunks are smaller if the budget is not enough for two chunks per problem
LEAST_SAVED = 0.02  # minimum fraction of a problem's time that the first chunk is assumed to save
_LASTING = 0.5  # expected saving of a chunk, as a fraction of the previous chunk's saving
_LARGEST = 1 << 20  # maximum bytes of a suite file

_MOST_WEIGHT = 1e100


class SuiteError(ValueError):
    """The file is not a suite. The message is one line with the reason."""


@dataclass(frozen=True)
class SuiteMember:
    """A problem, its weight (how often it is computed), and the measured time of one call in seconds; None if unknown.

    ``headroom`` is the fraction of these seconds that tuning is expected to save (``autosched.worth``); None if
    unknown.
    """

    problem: Problem
    weight: float = 1.0
    seconds: float | None = None
    headroom: float | None = None

    @property
    def saving(self) -> float:
        """Weighted seconds that tuning is expected to save, at least LEAST_SAVED; infinite without an estimate."""
        if self.seconds is None or self.headroom is None:
            return math.inf
        return self.weight * self.seconds * max(self.headroom, LEAST_SAVED)


@dataclass
class Standing:
    """Progress of a member of a suite.

    ``bests`` has the member's best seconds before the first chunk and after each chunk; infinite while no schedule
    works. ``seconds`` is the duration of its trials.
    """

    member: SuiteMember
    bests: list[float] = field(default_factory=list)
    trials: int = 0
    seconds: float = 0.0
    best: Trial | None = None
    exhausted: bool = False
    worth: str = ""

    def add(self, result: TuneResult) -> None:
        """Record the result of another chunk."""
        if not self.bests:
            new = {trial.id for trial in result.trials}
            earlier = result.best is not None and result.best.id not in new
            self.bests.append(_seconds(result.best) if earlier else math.inf)
        self.best = result.best
        self.bests.append(_seconds(result.best))
        self.trials += len(result.trials)
        self.seconds += result.seconds
        self.exhausted = result.exhausted or not (result.trials or result.out_of_time)
        self.worth = result.worth or self.worth

    @property
    def expected_gain(self) -> float:
        """Weighted seconds that the next chunk of this member is expected to save.

        The result is half of the last chunk's saving, but not less than a minimum, so that every search may get further
        chunks. The minimum is the weighted best time, multiplied by LEAST_SAVED and divided by the number of chunks.
        Before the first chunk, the result is the member's ``saving``. While no schedule works, the result is 0.
        """
        if self.exhausted:
            return -math.inf
        if not self.trials:
            return self.member.saving
        now, before = self.bests[-1], self.bests[-2]
        if math.isinf(now):
            return 0.0
        saved = _LASTING * (1.0 - now / before) if math.isfinite(before) else 0.0
        return self.member.weight * now * max(saved, LEAST_SAVED / (len(self.bests) - 1))

    def gain_per_second(self, chunk_seconds: float) -> float:
        """Return ``expected_gain`` divided by the mean time of a chunk (``chunk_seconds`` before the first chunk)."""
        chunks = len(self.bests) - 1
        return self.expected_gain / max(chunk_seconds if chunks < 1 else self.seconds / chunks, 1e-6)


@dataclass(frozen=True)
class SuiteResult:
    """The result of each member, in the order of the suite. If the run ended early, also the reason."""

    standings: tuple[Standing, ...]
    trials: int
    seconds: float
    out_of_time: bool = False
    interrupted: bool = False
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """True if every problem has a working schedule, or was not tried because too little gain is expected."""
        return all(s.best is not None or (not s.trials and s.member.headroom is not None) for s in self.standings)


def read_suite(path: str | Path) -> tuple[SuiteMember, ...]:
    """Return the members of a TOML file.

    Each member is a table ``[[problem]]`` with ``operator``, the operator's fields, and an optional ``weight``.

    Raises:
        SuiteError: The file is invalid.
        OSError: The file cannot be read.
    """
    try:
        content = read_bounded(path, _LARGEST)
    except ValueError as error:
        raise SuiteError(f"{path} is not a suite: {error}") from None
    try:
        document = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{path} is not TOML: {' '.join(str(error).split())}") from error
    tables = document.get("problem")
    if set(document) != {"problem"} or not isinstance(tables, list) or not tables:
        raise SuiteError(f"{path} must contain only a table [[problem]] for each problem")
    members = [_member(f"problem {number} of {path}", table) for number, table in enumerate(tables, 1)]
    keys = [member.problem.key() for member in members]
    for number, key in enumerate(keys, 1):
        if key in keys[: number - 1]:
            raise SuiteError(f"duplicate problem {number} in {path}: give it once, with the sum of the weights")
    return tuple(members)


def _member(where: str, table: Any) -> SuiteMember:
    if not isinstance(table, Mapping) or not isinstance(table.get("operator"), str):
        raise SuiteError(f"{where} needs an operator")
    weight = table.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < _MOST_WEIGHT:
        raise SuiteError(f"{where} has the weight {weight!r:.40}: use a positive number")
    try:
        problem = problem_from_json({name: value for name, value in table.items() if name != "weight"})
    except ValueError as error:
        raise SuiteError(f"{where} cannot be used: {' '.join(str(error).split())}") from error
    return SuiteMember(problem, float(weight))


Tell = Callable[[Standing, TuneResult], None]


def tune_suite(
    members: Sequence[SuiteMember],
    *,
    trials: int,
    database: str | Path,
    seconds: float | None = None,
    tell: Tell = lambda standing, result: None,
    progress: Observer | None = None,
    **options: Any,
) -> SuiteResult:
    """Tune ``members`` into one database, with a common budget of ``trials`` and optionally ``seconds``.

    Each chunk of trials goes to the problem with the largest expected gain. If ``seconds`` is given, the chunk goes to
    the problem with the largest gain per second. Problems without an estimated headroom come first. Before a problem's
    first chunk, the gain is computed from the problem's headroom. A search starts from the results of the other
    problems (``warm_start``). If the time limit or Ctrl-C ends the run before a problem is reached, its best trial is
    looked up in the database.

    Args:
        members: The problems with their weights; at least one.
        trials: Total number of trials, at least one for each problem.
        database: A path or an SQLAlchemy URL.
        seconds: Time in seconds after which no trial is proposed; None for no limit.
        tell: Called after every chunk, with the progress of the chunk's problem and the result of the chunk.
        progress: Observer of every trial, as for ``tune``.
        options: Further options of ``autosched.tune``, the same for all members.

    Returns:
        Progress of each member, in the order of the suite. If the run ended early, also the reason.

    Raises:
        SuiteError: There are no members, or fewer trials than members.
        ValueError: As in ``tune``.
    """
    trials = whole_number("trials", trials, 1)
    if not members:
        raise SuiteError("a suite needs at least one problem")
    if trials < len(members):
        raise SuiteError(f"{trials} trials are too few for {len(members)} problems: give at least one for each")
    chunk = max(1, min(CHUNK, trials // (2 * len(members))))
    standings = tuple(Standing(member) for member in members)
    remaining, began = trials, time.monotonic()
    out_of_time, interrupted, stopped = False, False, ""
    try:
        while remaining and not (interrupted or stopped):
            usual = _chunk_seconds(standings)
            standing = max(standings, key=lambda s: s.expected_gain if seconds is None else s.gain_per_second(usual))
            rest = None if seconds is None else seconds - (time.monotonic() - began)
            out_of_time = rest is not None and rest <= 0.0 and not standing.exhausted
            if standing.exhausted or out_of_time:
                break
            so_far = SoFar(progress)
            try:
                result = tuner.tune(
                    standing.member.problem,
                    trials=min(chunk, remaining),
                    database=database,
                    seconds=rest,
                    progress=so_far,
                    **options,
                )
            except KeyboardInterrupt as error:
                result = so_far.interrupted(error)
            except CommonFailure as error:
                result = replace(error.result, exhausted=True)
            standing.add(result)
            remaining -= len(result.trials)
            interrupted, stopped = result.interrupted, result.stopped
            tell(standing, result)
    except KeyboardInterrupt:  # Ctrl-C between two chunks: report the results so far
        interrupted = True
    _look_up(standings, database, options.get("device"))
    return SuiteResult(standings, trials - remaining, time.monotonic() - began, out_of_time, interrupted, stopped)


def _chunk_seconds(standings: Sequence[Standing]) -> float:
    """Return the mean seconds per chunk so far; 1 before the first chunk."""
    chunks = sum(max(len(s.bests) - 1, 0) for s in standings)
    return sum(s.seconds for s in standings) / chunks if chunks else 1.0


def _look_up(standings: Sequence[Standing], database: str | Path, device: str | Device | None) -> None:
    """Look up the best trials of the problems that were not reached."""
    unreached = [standing for standing in standings if not standing.bests]
    tuned_for = next((s.best.device for s in standings if s.best is not None), device)
    if not unreached:
        return
    try:
        with Store.open(database, create=False) as store:
            for standing in unreached:
                problem = standing.member.problem
                names = store.devices(problem) if tuned_for is None else (device_name(store, tuned_for),)
                standing.best = next((best for name in names if (best := store.best(problem, name))), None)
                standing.bests = [_seconds(standing.best)]
    except StoreError:  # no trial was stored, so there is no database yet
        return


def _seconds(trial: Trial | None) -> float:
    return math.inf if trial is None or trial.seconds is None else trial.seconds
