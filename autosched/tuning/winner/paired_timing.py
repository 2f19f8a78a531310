"""Paired timing: the fastest schedules are timed again, alternately with each other and with the vendor's library.

Clocks and temperatures change within minutes, so the search's own measurements (screening) cannot separate schedules
that differ by a few percent. In paired timing, every entrant runs once per round. Each round has new random inputs, and
ratios of times within a round decide. Further rounds are run with the entrants that can still win, until the winner is
clear or a limit is reached.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from measurements.runners.base import Candidate, Comparing, Entrant
from measurements.trials.measurement import Status, Timing
from measurements.trials.near_ties import WinnerChoice, choose, plausible
from measurements.trials.timing_statistics import Ratio, SpeedChange, error_of_median, verdict

FEWEST_ENTRANTS = 6
MOST_ENTRANTS = 32
WITHIN = 1.5  # maximum ratio of an entrant's screening time to the fastest; far above screening errors
# Effect of clock and temperature on a screening time, in addition to the noise of repetitions. Under load, the clock
# falls by different amounts for different kernels: on an H100, log ratios of screening times to paired times scatter by
# 2 to 4%.
DRIFT = 0.06
ERRORS = 3.0  # allowed difference between two screening times, in standard errors
ROUNDS = 20
FIRST_ROUNDS = 2  # number of rounds with all entrants, after which entrants that cannot win are dropped
MOST_ROUNDS = 1000
MOST_AT_ONCE = 100  # maximum number of rounds per call of the runner
SECONDS = 60.0
TIE = 0.01  # schedules whose times differ by less than this fraction count as equally fast


def select_entrants(
    screened: Sequence[Timing],
    module_of: Callable[[int], object] = int,
    structure_of: Callable[[int], object] = int,
) -> list[int]:
    """Select the schedules that may be as fast as the fastest.

    Screening times of equally fast schedules may differ by TIE, by DRIFT, and by the noise of two medians of a few
    repetitions. A schedule is selected if its time exceeds the fastest time by at most these three together. The error
    of a median is averaged over the schedules that take at most WITHIN times the fastest time, because the quartiles of
    a few repetitions are themselves uncertain. There are three further rules:

    - If fewer than FEWEST_ENTRANTS schedules are selected, the next fastest schedules are added up to this number. They
      must take at most WITHIN times the fastest time.
    - Only the fastest schedule of each compiled module is selected, unless there are fewer than FEWEST_ENTRANTS
      modules. Screening reliably ranks the other launch configurations of the module, because the GPU's clock changes
      equally for all of them under load.
    - If there are more than MOST_ENTRANTS modules, the fastest of each structure are selected first, because modules of
      the same structure have similar clocks.

    Args:
        screened: Screening times, by position.
        module_of: Function that returns equal values for positions with the same compiled module. Default: all modules
            are different.
        structure_of: Function that returns equal values for positions with similar kernels. Default: no two kernels are
            similar.

    Returns:
        Positions in ``screened``, the fastest first.
    """
    order = sorted(range(len(screened)), key=lambda i: screened[i].median)
    if not order:
        return []
    best = screened[order[0]].median
    near = [i for i in order if screened[i].median <= WITHIN * best]
    errors = [error_of_median(screened[i]) for i in near[:MOST_ENTRANTS]]
    bar = best * math.exp(math.log1p(TIE) + DRIFT + ERRORS * math.sqrt(2) * statistics.fmean(errors))
    leaders: list[int] = []
    admitted: list[int] = []
    siblings: list[int] = []
    modules, structures = set[object](), set[object]()
    for i in near:
        if len(modules) >= FEWEST_ENTRANTS and screened[i].median > bar:
            break
        module, structure = module_of(i), structure_of(i)
        (siblings if module in modules else admitted if structure in structures else leaders).append(i)
        modules.add(module)
        structures.add(structure)
    selected = [*leaders, *admitted][:MOST_ENTRANTS]
    selected += siblings[: max(FEWEST_ENTRANTS - len(selected), 0)]
    return sorted(selected, key=lambda i: screened[i].median)


@dataclass(frozen=True)
class Ranked:
    """An entrant in the ranking.

    Attributes:
        position: Index of the entrant in ``candidates``.
        entrant: Last result of the entrant.
        seconds: Times, one per round; empty for a failed entrant.
    """

    position: int
    entrant: Entrant
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Remeasurement:
    """Result of a paired timing.

    Attributes:
        standings: Entrants that ran, the winner first.
        failed: Entrants that failed.
        clear: True if every other entrant is significantly slower than the winner, or equally fast but less simple.
        rounds: Number of rounds.
        library: Ratio of the winner's time to the vendor library's time; None if the library was not timed.
        why_not: Reason why ``library`` is None.
        vendor: Result of the library.
        vendor_seconds: Times of the library, in seconds, one per round.
        copy_seconds: Times of a plain memory copy, in seconds, if the library was not timed. Later checks compare
            machines by these times.
    """

    standings: tuple[Ranked, ...]
    failed: tuple[Ranked, ...]
    clear: bool
    rounds: int
    library: Ratio | None
    why_not: str = ""
    vendor: Entrant | None = None
    vendor_seconds: tuple[float, ...] = ()
    copy_seconds: tuple[float, ...] = ()

    @property
    def library_won(self) -> bool:
        """True if the library is significantly faster than every entrant, by more than TIE."""
        return self.library is not None and verdict(self.library, TIE) is SpeedChange.SLOWER


def remeasure(
    runner: Comparing,
    candidates: Sequence[Candidate],
    complexity: Sequence[float],
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    incumbent: int | None = None,
) -> Remeasurement:
    """Time ``candidates`` of one problem alternately.

    If there are many entrants, all run FIRST_ROUNDS rounds; then entrants that cannot win (``near_ties.plausible``) are
    dropped. Later, entrants that can no longer win are dropped, too. An entrant that fails is removed, and the
    remaining entrants are timed again from the start. If it is unknown which entrant failed, each entrant runs alone
    for a round, and those that fail are removed. If none fails alone, the vendor's library is removed from the
    comparison. If the library did not take part, the entrant that was slowest in screening is removed.

    Args:
        runner: Runner that can time several kernels alternately.
        candidates: Entrants of one problem.
        complexity: Complexity of each candidate; lower is simpler.
        rounds: Initial number of rounds; repeatedly doubled until the winner is clear.
        seconds: Time in seconds after which no round is added.
        incumbent: Index of the previous winner in ``candidates``; None if there is none.

    Returns:
        The ranking. If several entrants are statistically tied, the incumbent wins if it is one of them, otherwise the
        simplest (``near_ties.choose``).

    Raises:
        RunnerStopped: The runner cannot continue.
    """
    session = _TimedRounds(runner, candidates)
    began = time.monotonic()
    while session.running and session.num_rounds < MOST_ROUNDS:
        first = session.num_rounds == 0 and len(session.running) > FEWEST_ENTRANTS and rounds > FIRST_ROUNDS
        times = session.time_rounds(FIRST_ROUNDS if first else rounds)
        if times.has_failures:
            session.drop_failures(times)
            continue
        session.add(times)
        choice = session.choose(complexity, incumbent)
        if first:
            session.drop_implausible(incumbent)
            continue
        if time.monotonic() - began >= seconds or choice.clear:
            break
        session.drop_hopeless(choice)
    return session.ranking(complexity, incumbent)


@dataclass(frozen=True)
class _RoundTimes:
    """Results of one call of the runner: of each entrant (by position), of the library and of the plain copy."""

    rounds: int
    entrants: dict[int, Entrant]
    library: Entrant | None
    copy: Entrant | None

    @property
    def has_failures(self) -> bool:
        return any(entrant.status is not Status.OK for entrant in self.entrants.values())


class _TimedRounds:
    """Times of all rounds, and the entrants that remain. Entrants are identified by their positions."""

    def __init__(self, runner: Comparing, candidates: Sequence[Candidate]) -> None:
        self._runner = runner
        self._candidates = candidates
        self._failed: dict[int, Entrant] = {}
        self._with_library = self._with_copy = True
        self._why_no_library = ""
        self._vendor: Entrant | None = None
        self._start(range(len(candidates)))

    def _start(self, positions: Iterable[int]) -> None:
        """Start again at round 0 with the entrants at ``positions``."""
        self.running = list(positions)
        self.num_rounds = 0  # number of completed rounds
        self._times: dict[int, list[float]] = {i: [] for i in self.running}
        # logarithm of the ratio of each entrant's time to the fastest, from the last computation
        self._log_ratios: dict[int, float] = {}
        self._entrants: dict[int, Entrant] = {}
        self._library: list[float] = []
        self._copies: list[float] = []

    def time_rounds(self, first: int) -> _RoundTimes:
        """Time the remaining entrants for ``first`` rounds; later calls double the number of rounds, within limits."""
        rounds = first
        if self.num_rounds:
            rounds = min(max(first, self.num_rounds), max(first, MOST_AT_ONCE), MOST_ROUNDS - self.num_rounds)
        answers = self._runner.compare(
            [self._candidates[i] for i in self.running],
            rounds=rounds,
            library=self._with_library,
            other_baselines=("copy",) if self._with_copy else (),
        )
        own, rest = answers[: len(self.running)], list(answers[len(self.running) :])
        library = rest.pop(0) if self._with_library and rest else None
        return _RoundTimes(rounds, dict(zip(self.running, own, strict=True)), library, rest[0] if rest else None)

    def drop_failures(self, timed: _RoundTimes) -> None:
        """Remove the failed entrants, and start again at round 0 with the remaining ones."""
        culprits = {i: e for i, e in timed.entrants.items() if e.status not in (Status.OK, Status.CRASHED)}
        # A crash is attributed to no entrant. A timeout of the whole comparison is attributed to every entrant. In both
        # cases, the entrant that caused the failure is unknown.
        if len(culprits) in (0, len(timed.entrants)):
            alone = {i: self._runner.compare([self._candidates[i]], rounds=1, library=False)[0] for i in timed.entrants}
            culprits = {i: entrant for i, entrant in alone.items() if entrant.status is not Status.OK}
            if not culprits and timed.library is not None:
                self._why_no_library = f"the library failed when timed with the entrants: {timed.library.reason}"
                self._with_library = self._with_copy = False  # the plain copy may be the cause
            elif not culprits:
                slowest = self.running[-1]
                culprits = {slowest: timed.entrants[slowest]}
        self._failed |= culprits
        if self._with_library:
            self._why_no_library = ""
        self._start([i for i in self._times if i not in self._failed])

    def add(self, timed: _RoundTimes) -> None:
        """Add the times of rounds in which every entrant ran."""
        if timed.library is not None:
            self._vendor = timed.library
            self._library += timed.library.seconds
            if timed.library.status is not Status.OK:
                self._why_no_library = timed.library.reason
            self._with_copy = self._with_copy and timed.library.status is not Status.OK
        if timed.copy is not None:
            self._copies += timed.copy.seconds
            self._with_copy = self._with_copy and timed.copy.status is Status.OK
        for i, entrant in timed.entrants.items():
            self._times[i] += entrant.seconds
        self._entrants |= timed.entrants
        self.num_rounds += timed.rounds

    def choose(self, complexity: Sequence[float], incumbent: int | None) -> WinnerChoice:
        """Return the winner among the remaining entrants. The incumbent is ignored if it was dropped."""
        position = self.running.index(incumbent) if incumbent in self.running and incumbent is not None else None
        times, simplicity = [self._times[i] for i in self.running], [complexity[i] for i in self.running]
        choice = choose(times, simplicity, TIE, position)
        self._log_ratios |= {i: ratio.centre for i, ratio in zip(self.running, choice.slowdowns, strict=True)}
        return choice

    def drop_implausible(self, incumbent: int | None) -> None:
        """Drop entrants that cannot win because they are slow in the first rounds. Keep the incumbent."""
        plausible_entrants = {
            self.running[position] for position in plausible([self._times[i] for i in self.running], TIE)
        }
        self.running = [i for i in self.running if i in plausible_entrants or i == incumbent]

    def drop_hopeless(self, choice: WinnerChoice) -> None:
        """Drop the entrants that can no longer win."""
        self.running = [self.running[position] for position in choice.contenders]

    def ranking(self, complexity: Sequence[float], incumbent: int | None) -> Remeasurement:
        """Return the final ranking, and the ratio of the winner's time to the library's time."""
        losers = tuple(Ranked(i, entrant, ()) for i, entrant in self._failed.items())
        if not self.running:
            return Remeasurement((), losers, False, 0, None, "no entrant ran")
        choice = self.choose(complexity, incumbent)
        winner = self.running[choice.winner]
        compared = None
        if len(self._library) == self.num_rounds and not self._why_no_library:
            compared = Ratio.paired(self._times[winner], self._library)
        slower = sorted((i for i in self._times if i != winner), key=lambda i: self._log_ratios[i])
        standings = tuple(Ranked(i, self._entrants[i], tuple(self._times[i])) for i in (winner, *slower))
        library = tuple(self._library) if compared is not None else ()
        return Remeasurement(
            standings=standings,
            failed=losers,
            clear=choice.clear,
            rounds=self.num_rounds,
            library=compared,
            why_not=self._why_no_library,
            vendor=self._vendor,
            vendor_seconds=library,
            copy_seconds=() if library else tuple(self._copies),
        )
