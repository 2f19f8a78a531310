"""How often two tunes of one problem choose the same schedule, over the recorded noise of real GPUs.

    python -m benchmarks.regression.tie_agreement FOLDER [--tunes 40] [--schedules 200] [--parts 0] [--seed 0]

FOLDER holds files in Kernel Tuner's cache format with the raw ``times`` of every configuration. A tune screens the
``--schedules`` fastest of one file by the median of 7 repeats each, drawn with replacement from those recorded. Three
ways to choose the winner:

- ``fastest``: the smallest median of screening.
- ``simplest``: the final of ``tune``: those that may be the fastest by screening in turns, the simplest of a tie wins.
- ``incumbent``: the same in a database that has been tuned once: the winner of that tune takes part, and keeps a tie.

With ``--parts``, each file also gives so many random two fifths of its configurations with random defaults: other
spaces with the same noise, so that no rule can be fitted to a handful of files. Their means are in one row for a file.

Simpler is what departs from fewer defaults, which are the smallest values of its file's parameters, or random ones.
Agreement is the share of all pairs of tunes that have the same winner; of ``incumbent``, how often the second tune
confirms the first. ``loss`` is how much slower the chosen one is than the fastest, by the trimmed means of all recorded
repeats.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autosched.tuning import paired_timing as remeasurement
from autosched.tuning.paired_timing import remeasure
from measurements.records.measurement import Status, Timing
from measurements.records.near_ties import trimmed_mean
from measurements.runners.base import Candidate, Entrant
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

REPEATS = 7  # of screening: the least that ``measure`` takes
PART = 0.4
_PROBLEM = Matmul(1, 1, 1)  # a stand-in: nothing here is computed
_KERNEL = Kernel(entry="k", source="", arguments=(), grid=(1, 1, 1), block=(1, 1, 1))


@dataclass(frozen=True)
class Recorded:
    """The repeats of one configuration in seconds, and how complex it is: lower is simpler, no two are alike."""

    seconds: npt.NDArray[np.float64]
    complexity: tuple[int, ...]


def recorded(path: Path, most: int, part: np.random.Generator | None = None) -> list[Recorded]:
    """The ``most`` fastest configurations of a Kernel Tuner cache, or of a random PART of it, fastest first."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    values = {name: sorted(listed) for name, listed in document["tune_params"].items()}
    defaults = [0 if part is None else int(part.integers(len(listed))) for listed in values.values()]
    found = []
    for entry in document["cache"].values():
        if isinstance(entry.get("time"), (int, float)) and entry.get("times"):
            if part is not None and part.random() >= PART:
                continue
            places = [listed.index(entry[name]) for name, listed in values.items()]
            seconds = np.asarray(entry["times"], float) / 1e3
            departs = sum(place != default for place, default in zip(places, defaults, strict=True))
            found.append(Recorded(seconds, (departs, *places)))
    return sorted(found, key=lambda r: float(np.median(r.seconds)))[:most]


class Turns:
    """Compares configurations by times drawn from what was recorded of each."""

    def __init__(self, space: Sequence[Recorded], rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        others: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        entrants = []
        for candidate in candidates:
            place = candidate.schedule.integer("place")
            seconds = self._rng.choice(self._space[place].seconds, rounds)
            entrants.append(Entrant(str(place), Status.OK, "", tuple(seconds)))
        return (*entrants, Entrant("library", Status.LAUNCH_ERROR, "there is none", ())) if library else tuple(entrants)


def screened(space: Sequence[Recorded], rng: np.random.Generator) -> list[int]:
    """The places of the configurations that a final lets in, by the medians of a few repeats each, fastest first."""
    return remeasurement.let_in([Timing.of(rng.choice(one.seconds, REPEATS).tolist()) for one in space])


def final(
    space: Sequence[Recorded], order: Sequence[int], rng: np.random.Generator, incumbent: int | None = None
) -> int:
    """The winner of the final, as ``tune`` holds it; the ``incumbent`` takes part."""
    first = [] if incumbent is None else [incumbent]
    places = list(dict.fromkeys([*first, *order]))[: remeasurement.MOST_ENTRANTS]
    candidates = [Candidate(_PROBLEM, Schedule("recorded", (("place", place),)), _KERNEL) for place in places]
    ranked = sorted(places, key=lambda place: space[place].complexity)
    complexity = [float(ranked.index(place)) for place in places]
    done = remeasure(Turns(space, rng), candidates, complexity, incumbent=None if incumbent is None else 0)
    return places[done.standings[0].position]


@dataclass(frozen=True)
class Result:
    """Agreement and median loss of each way to choose."""

    file: str
    agreement: dict[str, float]
    loss: dict[str, float]


def compare_ways(space: Sequence[Recorded], tunes: int, seed: int, file: str) -> Result:
    rng = np.random.default_rng(seed)
    chosen: dict[str, list[int]] = {"fastest": [], "simplest": [], "incumbent": []}
    for _ in range(tunes):
        order = screened(space, rng)
        chosen["fastest"].append(order[0])
        chosen["simplest"].append(final(space, order, rng))
        chosen["incumbent"].append(final(space, screened(space, rng), rng, chosen["simplest"][-1]))
    kept = [a == b for a, b in zip(chosen["simplest"], chosen["incumbent"], strict=True)]
    agreement = {way: _pairs(chosen[way]) for way in ("fastest", "simplest")} | {"incumbent": statistics.fmean(kept)}
    centres = [math.exp(trimmed_mean(np.log(one.seconds))) for one in space]
    loss = {way: statistics.median(centres[i] / min(centres) - 1 for i in found) for way, found in chosen.items()}
    return Result(file, agreement, loss)


def _pairs(winners: Sequence[int]) -> float:
    """The share of pairs of different tunes with the same winner."""
    same = sum(n * (n - 1) for n in Counter(winners).values())
    return same / (len(winners) * (len(winners) - 1))


def results(folder: Path, tunes: int, schedules: int, parts: int, seed: int) -> Iterator[Result]:
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]):
        name = path.name.partition(".")[0]
        yield compare_ways(recorded(path, schedules), tunes, seed, name)
        random = [np.random.default_rng([seed, part]) for part in range(parts)]
        found = [compare_ways(recorded(path, schedules, rng), tunes, seed, name) for rng in random]
        if found:
            yield _mean(f"{parts} parts of {name}", found)


def _mean(name: str, found: Sequence[Result]) -> Result:
    agreement = {way: statistics.fmean(r.agreement[way] for r in found) for way in found[0].agreement}
    return Result(name, agreement, {way: statistics.fmean(r.loss[way] for r in found) for way in agreement})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regression.tie_agreement", description="Agreement of two tunes."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tunes", type=int, default=40)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--parts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    print("| recorded on | fastest median | simplest of a tie | incumbent of a tie | median loss of each |")
    print("|---|---|---|---|---|")
    found: list[Result] = []
    for result in results(given.folder, given.tunes, given.schedules, given.parts, given.seed):
        found.append(result)
        print(_row(result.file, result.agreement, result.loss), flush=True)
    if not found:
        print(f"tie_agreement: {given.folder} holds no recorded spaces (*.json, *.json.gz)", file=sys.stderr)
        return 2
    mean = _mean("mean", found)
    print(_row(mean.file, mean.agreement, mean.loss))
    return 0


def _row(name: str, agreement: dict[str, float], loss: dict[str, float]) -> str:
    shares = " | ".join(f"{agreement[way]:.0%}" for way in agreement)
    return f"| {name} | {shares} | {', '.join(f'{loss[way]:.1%}' for way in loss)} |"


if __name__ == "__main__":
    sys.exit(main())
