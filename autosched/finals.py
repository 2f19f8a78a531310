"""The last phase of tuning on a GPU: the fastest schedules are timed in turns, with each other and with the library.

What was measured minutes apart met other clocks and temperatures, so screening alone cannot tell schedules that are a
few percent apart. In a final every finalist runs once in each round, on inputs of another seed than in screening, and
ratios within rounds decide. Rounds are added until the winner is clear or a limit is met.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.measurement import Status
from measurements.runners.base import Arm, Candidate, Comparing
from measurements.timing import Ratio, choose

FINALISTS = 6
WITHIN = 1.5  # times the fastest of screening: screening is not wrong by more
ROUNDS = 20
MOST_ROUNDS = 100
TIE = 0.01  # schedules less than this far apart are as fast as each other


@dataclass(frozen=True)
class Place:
    """One finalist: ``position`` among those given, and its times, one a round; none where it failed with ``arm``."""

    position: int
    arm: Arm
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Final:
    """``places`` are those that ran, in order, the winner first; ``failed`` those that did not.

    ``clear``: every other one is shown to be slower than the winner, or as fast and less simple. ``library`` is the
    winner's time over that of the vendor's library; None where there is none to compare with, and ``why_not`` says so.
    """

    places: tuple[Place, ...]
    failed: tuple[Place, ...]
    clear: bool
    rounds: int
    library: Ratio | None
    why_not: str = ""


def hold(
    runner: Comparing,
    candidates: Sequence[Candidate],
    complexity: Sequence[float],
    *,
    rounds: int = ROUNDS,
    seconds: float = math.inf,
) -> Final:
    """Time ``candidates`` of one problem in turns. The simplest of those that are as fast as the fastest wins.

    ``rounds`` at a time, no more of them after ``seconds``. One that fails is out; where it takes the others down with
    it, they are timed anew without it. Where nobody knows who did that, each is tried alone for a round: who fails then
    is out, or else the library is, or else the slowest of screening. Raises RunnerStopped.
    """
    times: dict[int, list[float]] = {i: [] for i in range(len(candidates))}
    arms: dict[int, Arm] = {}
    failed: dict[int, Arm] = {}
    library: list[float] = []
    why_not = ""
    with_library = True
    held = 0
    began = time.monotonic()
    while times and held < MOST_ROUNDS:
        places = list(times)
        told = runner.compare([candidates[i] for i in places], rounds=rounds, library=with_library)
        told, others = told[: len(places)], told[len(places) :]
        ok = {i: arm for i, arm in zip(places, told, strict=True) if arm.status is Status.OK}
        out = {i: arm for i, arm in zip(places, told, strict=True) if i not in ok and arm.status is not Status.CRASHED}
        if len(ok) < len(places):
            if len(out) in (0, len(places)):  # a death, or a time limit of all together, which says nothing of one
                alone = {i: runner.compare([candidates[i]], rounds=1, library=False)[0] for i in places}
                out = {i: arm for i, arm in alone.items() if arm.status is not Status.OK}
                if not out and with_library:
                    with_library, why_not = False, f"in turns with the others it failed: {others[0].reason}"
                elif not out:
                    out = {places[-1]: told[-1]}
            failed |= out
            times = {i: [] for i in places if i not in out}  # rounds are comparable only where all took part
            library, held = [], 0
            why_not = "" if with_library else why_not
            continue
        arms = ok
        for i, arm in ok.items():
            times[i] += arm.seconds
        for other in others:
            library += other.seconds
            why_not = other.reason if other.status is not Status.OK else why_not
        held += rounds
        late = time.monotonic() - began >= seconds
        if late or len(times) == 1 or choose(list(times.values()), [complexity[i] for i in times], TIE).clear:
            break
    losers = tuple(Place(i, arm, ()) for i, arm in failed.items())
    if not times:
        return Final((), losers, False, 0, None, "no finalist ran")
    order = list(times)
    choice = choose([times[i] for i in order], [complexity[i] for i in order], TIE)
    winner = order[choice.winner]
    behind = sorted((i for i in order if i != winner), key=lambda i: choice.ratios[order.index(i)].median)
    compared = Ratio.paired(times[winner], library) if len(library) == held and not why_not else None
    placed = tuple(Place(i, arms[i], tuple(times[i])) for i in (winner, *behind))
    return Final(placed, losers, choice.clear, held, compared, why_not)
