"""Paired re-measurement: the fastest schedules are timed again in turns, with each other and with the library.

Times measured minutes apart saw different clocks and temperatures, so screening alone cannot separate schedules that
are a few percent apart. Here every entrant runs once per round, on inputs of another seed than in screening, and the
ratios within rounds decide. Rounds are added until the winner is clear or a limit is met.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from measurements.measurement import Status
from measurements.runners.base import Candidate, Comparing, Entrant
from measurements.timing import Choice, Ratio, Verdict, choose, verdict

MOST_ENTRANTS = 6
WITHIN = 1.5  # times the fastest of screening: screening errors are smaller
ROUNDS = 20
MOST_ROUNDS = 100
TIE = 0.01  # schedules closer than this count as equally fast


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
    ``vendor`` is how the library itself did, with its times in ``vendor_seconds``.
    """

    standings: tuple[Standing, ...]
    failed: tuple[Standing, ...]
    clear: bool
    rounds: int
    library: Ratio | None
    why_not: str = ""
    vendor: Entrant | None = None
    vendor_seconds: tuple[float, ...] = ()

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
    seconds: float = math.inf,
    incumbent: int | None = None,
) -> Remeasurement:
    """Time ``candidates`` of one problem in turns. Of those that are as fast as the fastest, the one at the position
    ``incumbent`` wins, which has won before, else the simplest: ``timing.choose`` says what that means.

    ``rounds`` at a time, and none begin after ``seconds``. An entrant that fails is removed; if the others failed with
    it, they are timed again without it. Where the culprit is unknown, each entrant runs alone for a round: those that
    fail are removed, or else the library, or else the slowest in screening. Raises RunnerStopped.
    """
    times: dict[int, list[float]] = {i: [] for i in range(len(candidates))}
    entrants: dict[int, Entrant] = {}
    failed: dict[int, Entrant] = {}
    library: list[float] = []
    why_not = ""
    vendor: Entrant | None = None
    with_library = True
    held = 0
    began = time.monotonic()
    while times and held < MOST_ROUNDS:
        places = list(times)
        told = runner.compare([candidates[i] for i in places], rounds=rounds, library=with_library)
        told, others = told[: len(places)], told[len(places) :]
        ok = {i: entrant for i, entrant in zip(places, told, strict=True) if entrant.status is Status.OK}
        out = {
            i: entrant
            for i, entrant in zip(places, told, strict=True)
            if i not in ok and entrant.status is not Status.CRASHED
        }
        if len(ok) < len(places):
            if len(out) in (
                0,
                len(places),
            ):  # a crash or a common time limit: the culprit is unknown
                alone = {i: runner.compare([candidates[i]], rounds=1, library=False)[0] for i in places}
                out = {i: entrant for i, entrant in alone.items() if entrant.status is not Status.OK}
                if not out and with_library:
                    with_library, why_not = False, f"in turns with the others it failed: {others[0].reason}"
                elif not out:
                    out = {places[-1]: told[-1]}
            failed |= out
            times = {i: [] for i in places if i not in out}  # rounds are comparable only where all took part
            library, held = [], 0
            why_not = "" if with_library else why_not
            continue
        entrants = ok
        for i, entrant in ok.items():
            times[i] += entrant.seconds
        for other in others:
            vendor = other
            library += other.seconds
            why_not = other.reason if other.status is not Status.OK else why_not
        held += rounds
        late = time.monotonic() - began >= seconds
        if late or len(times) == 1 or _choice(times, complexity, incumbent).clear:
            break
    losers = tuple(Standing(i, entrant, ()) for i, entrant in failed.items())
    if not times:
        return Remeasurement((), losers, False, 0, None, "no entrant ran")
    order = list(times)
    choice = _choice(times, complexity, incumbent)
    winner = order[choice.winner]
    behind = sorted((i for i in order if i != winner), key=lambda i: choice.ratios[order.index(i)].median)
    compared = Ratio.paired(times[winner], library) if len(library) == held and not why_not else None
    placed = tuple(Standing(i, entrants[i], tuple(times[i])) for i in (winner, *behind))
    seconds_of_it = tuple(library) if compared is not None else ()
    return Remeasurement(placed, losers, choice.clear, held, compared, why_not, vendor, seconds_of_it)


def _choice(times: Mapping[int, Sequence[float]], complexity: Sequence[float], incumbent: int | None) -> Choice:
    """Among the positions that ``times`` has, which need not have the incumbent's any more."""
    order = list(times)
    place = order.index(incumbent) if incumbent in times and incumbent is not None else None
    return choose([times[i] for i in order], [complexity[i] for i in order], TIE, place)
