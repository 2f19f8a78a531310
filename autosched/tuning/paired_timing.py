"""Paired re-measurement: the fastest schedules are timed again in turns, with each other and with the library.

Times measured minutes apart saw different clocks and temperatures, so screening alone cannot separate schedules that
are a few percent apart. Here every entrant runs once per round, on inputs of another seed than in screening, and the
ratios within rounds decide. Rounds are added, for those whose place they may still change, until the winner is clear or
a limit is met.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from measurements.records.measurement import Status, Timing
from measurements.records.near_ties import Choice, choose
from measurements.records.timing_statistics import Ratio, Verdict, error_of_median, verdict
from measurements.runners.base import Candidate, Comparing, Entrant

FEWEST_ENTRANTS = 6
MOST_ENTRANTS = 32
WITHIN = 1.5  # times the fastest of screening: screening errors are smaller
DRIFT = 0.02  # what clock and temperature may have done to a time of screening, beyond the noise of its repeats
ERRORS = 3.0  # standard errors of the difference of two times of screening
ROUNDS = 20
MOST_ROUNDS = 1000
MOST_AT_ONCE = 100  # rounds
SECONDS = 60.0
TIE = 0.01  # schedules closer than this count as equally fast


def let_in(screened: Sequence[Timing]) -> list[int]:
    """The positions of those that may be as fast as the fastest, by their times of screening; fastest first.

    A true tie may be behind by TIE, by DRIFT, and by what the noise of a few repeats makes of two medians: the error of
    one is taken over all that are near, since the quartiles of a few repeats are themselves uncertain. The
    FEWEST_ENTRANTS fastest are let in as long as they are WITHIN.
    """
    order = sorted(range(len(screened)), key=lambda i: screened[i].median)
    if not order:
        return []
    best = screened[order[0]].median
    near = [i for i in order if screened[i].median <= WITHIN * best]
    errors = [error_of_median(screened[i]) for i in near[:MOST_ENTRANTS]]
    bar = best * math.exp(math.log1p(TIE) + DRIFT + ERRORS * math.sqrt(2) * statistics.fmean(errors))
    return [i for place, i in enumerate(near) if place < FEWEST_ENTRANTS or screened[i].median <= bar][:MOST_ENTRANTS]


@dataclass(frozen=True)
class Standing:
    """How one entrant did: ``position`` among those given, and its times, one per round; none where it failed."""

    position: int
    entrant: Entrant
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Remeasurement:
    """``standings`` are those that ran, in order, the winner first; ``failed`` those that did not.

    ``clear``: every other one is shown to be slower than the winner, or as fast and less simple. ``library`` is the
    winner's time over that of the vendor's library; None where there is none to compare with, and ``why_not`` says so.
    ``vendor`` is how the library itself did, with its times in ``vendor_seconds``. Where there is none,
    ``copy_seconds`` are those of a plain copy, so that a later check knows what this machine was.
    """

    standings: tuple[Standing, ...]
    failed: tuple[Standing, ...]
    clear: bool
    rounds: int
    library: Ratio | None
    why_not: str = ""
    vendor: Entrant | None = None
    vendor_seconds: tuple[float, ...] = ()
    copy_seconds: tuple[float, ...] = ()

    @property
    def library_won(self) -> bool:
        """Whether the library is shown to be faster than every entrant: within TIE, one of ours wins."""
        return self.library is not None and verdict(self.library, TIE) is Verdict.SLOWER


def remeasure(
    runner: Comparing,
    candidates: Sequence[Candidate],
    complexity: Sequence[float],
    *,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    incumbent: int | None = None,
) -> Remeasurement:
    """Time ``candidates`` of one problem in turns. Of those that are as fast as the fastest, the one at the position
    ``incumbent`` wins, which has won before, else the simplest: ``ties.choose`` says what that means.

    At first ``rounds``, then as many as there were, and none begin after ``seconds``. Who can no longer win, nor say
    how far others are behind, takes part in no more of them. An entrant that fails is removed; if the others failed
    with it, they are timed again without it. Where the culprit is unknown, each entrant runs alone for a round: those
    that fail are removed, or else the library, or else the slowest in screening. Raises RunnerStopped.
    """
    heat = _Heat(list(range(len(candidates))))
    failed: dict[int, Entrant] = {}
    why_not = ""
    vendor: Entrant | None = None
    with_library = with_copy = True
    began = time.monotonic()
    while heat.running and heat.held < MOST_ROUNDS:
        places = list(heat.running)
        step = heat.next_rounds(rounds)
        told = runner.compare(
            [candidates[i] for i in places], rounds=step, library=with_library, others=("copy",) if with_copy else ()
        )
        told, others = told[: len(places)], told[len(places) :]
        others, copies = others[:with_library], others[with_library:]
        entrants = dict(zip(places, told, strict=True))
        if any(entrant.status is not Status.OK for entrant in told):
            out = {i: e for i, e in entrants.items() if e.status not in (Status.OK, Status.CRASHED)}
            if len(out) in (0, len(places)):  # a crash or a common time limit: the culprit is unknown
                alone = {i: runner.compare([candidates[i]], rounds=1, library=False)[0] for i in places}
                out = {i: entrant for i, entrant in alone.items() if entrant.status is not Status.OK}
                if not out and with_library:
                    with_library, why_not = False, f"in turns with the others it failed: {others[0].reason}"
                    with_copy = False  # it may have been the copy
                elif not out:
                    out = {places[-1]: told[-1]}
            failed |= out
            heat = _Heat([i for i in heat.times if i not in failed])  # who was behind whom is open again
            why_not = "" if with_library else why_not
            continue
        for other in others:
            vendor = other
            heat.library += other.seconds
            why_not = other.reason if other.status is not Status.OK else why_not
            with_copy = with_copy and other.status is not Status.OK
        for one in copies:
            heat.copies += one.seconds
            with_copy = with_copy and one.status is Status.OK
        heat.add(entrants, step)
        choice = heat.choice(complexity, incumbent)
        if time.monotonic() - began >= seconds or choice.clear:
            break
        heat.keep(choice)
    losers = tuple(Standing(i, entrant, ()) for i, entrant in failed.items())
    if not heat.running:
        return Remeasurement((), losers, False, 0, None, "no entrant ran")
    choice = heat.choice(complexity, incumbent)
    winner = heat.running[choice.winner]
    compared = None
    if len(heat.library) == heat.held and not why_not:
        compared = Ratio.paired(heat.times[winner], heat.library)
    behind = sorted((i for i in heat.times if i != winner), key=lambda i: heat.behind[i])
    placed = tuple(Standing(i, heat.entrants[i], tuple(heat.times[i])) for i in (winner, *behind))
    seconds_of_it = tuple(heat.library) if compared is not None else ()
    copy = () if seconds_of_it else tuple(heat.copies)
    return Remeasurement(placed, losers, choice.clear, heat.held, compared, why_not, vendor, seconds_of_it, copy)


class _Heat:
    """Rounds in which the same entrants took part, but for those who dropped out; by their positions."""

    def __init__(self, entrants: Sequence[int]) -> None:
        self.times: dict[int, list[float]] = {i: [] for i in entrants}
        self.running = list(entrants)
        self.behind: dict[int, float] = {}  # the fastest, when last compared
        self.entrants: dict[int, Entrant] = {}
        self.library: list[float] = []
        self.copies: list[float] = []
        self.held = 0

    def next_rounds(self, first: int) -> int:
        """As many again as there were, within limits."""
        return min(max(first, self.held), max(first, MOST_AT_ONCE), MOST_ROUNDS - self.held) if self.held else first

    def add(self, entrants: Mapping[int, Entrant], rounds: int) -> None:
        for i, entrant in entrants.items():
            self.times[i] += entrant.seconds
        self.entrants |= entrants
        self.held += rounds

    def choice(self, complexity: Sequence[float], incumbent: int | None) -> Choice:
        """Among those that are running, which the incumbent need not be any more; positions are places among them."""
        running = self.running
        place = running.index(incumbent) if incumbent in running and incumbent is not None else None
        made = choose([self.times[i] for i in running], [complexity[i] for i in running], TIE, place)
        self.behind |= {i: behind.centre for i, behind in zip(running, made.behind, strict=True)}
        return made

    def keep(self, choice: Choice) -> None:
        self.running = [self.running[place] for place in choice.contenders]
