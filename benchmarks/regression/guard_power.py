"""Simulate false alarms and missed slowdowns of ``autosched check`` with the recorded noise of real GPUs.

    python -m benchmarks.regression.guard_power FOLDER [--runs 300] [--entries 100] [--seed 0] [--json]

FOLDER has Kernel Tuner caches (.json or .json.gz) with the raw ``times`` of every configuration. A run checks random
configurations from the fastest tenth of one file, by the procedure that is used on a GPU. Times are sampled from the
recorded times: either independently, or in order. "In order" takes consecutive recorded times, which include the drift
of the recording. ``benchmarks/results/guard_power.md`` explains the method. The check also compares an entry and its
control (the next configuration) with their times at tuning. The column *uncertain* has the share of unchanged entries
whose result is uncertain because of this comparison. The column *driver detected* has the share of entries for which
this comparison detects a simulated new driver, which slows down the entry and the baseline, but not the control.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.regression.procedure import ComparisonEffort, flagged, judged, until_decided
from autosched.regression.since_tuning import AtTuning, since
from autosched.regression.slowdown import SlowdownLimits, TimeComparison, Times
from measurements.trials.measurement import Timing
from measurements.trials.timing_statistics import SpeedChange, interleaved, relative_noise
from measurements.trials.trial import Control

Record = npt.NDArray[np.float64]
DRAWS = ("independent", "in order")
# An entry is quiet if the times of equal programs differ by less than this fraction. For quiet entries, the check
# should find small slowdowns.
QUIET = 0.01
LEAST_REPEATS = 5
TUNED_ROUNDS = 100  # number of rounds in the paired timing at the end of tuning
DRIVER = 0.05
PROGRAMS = 3  # programs timed in a round: baseline, candidate, baseline again


@dataclass(frozen=True)
class Result:
    """Figures for one file, one way of sampling its times (``drawn``: independently or in order), and one slowdown.

    Numbers of runs and entries:

    - ``false_alarms``: runs that report an unchanged entry as slower
    - ``slowed``: entries that were slowed down
    - ``found_slow``: slowed entries that the check reported
    - ``slowed_quiet`` and ``found_quiet``: the same numbers for entries whose noise is below QUIET
    - ``settled``: unchanged entries that are the same or faster according to the check's paired times
    - ``unsettled``: settled entries that become uncertain when they are compared with their times at tuning
    - ``revealed``: settled entries whose times at tuning reveal a new driver that slows down both entry and baseline
    """

    file: str
    drawn: str
    slowdown: float
    runs: int
    entries: int
    false_alarms: int
    doubted: int
    slowed: int
    found_slow: int
    slowed_quiet: int
    found_quiet: int
    settled: int
    unsettled: int
    revealed: int


def recorded(path: Path) -> list[Record]:
    """Return the times of each valid configuration in a Kernel Tuner cache, in seconds.

    The fastest configuration is first. The times of a configuration are in the order in which they were measured.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        cache = json.load(file)["cache"].values()
    runs = [np.asarray(entry["times"], float) / 1e3 for entry in cache if _ran(entry)]
    return sorted(runs, key=lambda times: float(np.median(times)))


def _ran(entry: dict[str, Any]) -> bool:
    times = entry.get("times")
    return isinstance(times, list) and len(times) >= LEAST_REPEATS and all(isinstance(t, (int, float)) for t in times)


class Noise:
    """Draws random times of an entry and its control from their recorded times (``record`` and ``control``)."""

    def __init__(self, record: Record, control: Record, slowdown: float, drawn: str, rng: np.random.Generator) -> None:
        self.record, self.control, self.slowdown, self.drawn, self.rng = record, control, slowdown, drawn, rng
        self.control_times: list[float] = []

    def __call__(self, rounds: int) -> Times:
        if self.drawn == "independent":
            samples = self.rng.choice(self.record, (rounds, PROGRAMS))
        else:
            piece = max(len(self.record) // (2 * PROGRAMS), 1)
            starts = self.rng.integers(len(self.record) - piece * PROGRAMS + 1, size=-(-rounds // piece))
            indices = (starts[:, None] + np.arange(piece * PROGRAMS)).reshape(-1, PROGRAMS)[:rounds]
            samples = np.empty((rounds, PROGRAMS))
            for row, order, row_indices in zip(samples, interleaved(PROGRAMS, rounds), indices, strict=True):
                row[order] = self.record[row_indices]
        control = tuple(self.rng.choice(self.control, rounds))
        self.control_times += control
        return Times(tuple(samples[:, 0]), tuple(samples[:, 1] * (1 + self.slowdown)), tuple(samples[:, 2]), control)

    def tuned(self) -> tuple[Timing, Timing]:
        """Return simulated times that the entry and its control had at tuning."""
        of_entry, of_control = (self.rng.choice(times, TUNED_ROUNDS).tolist() for times in (self.record, self.control))
        return Timing.of(of_entry), Timing.of(of_control)

    def unsettled(self, comparison: TimeComparison, driver: float = 0.0) -> bool:
        """Return True if changes since tuning may hide a slowdown, so that the result of ``comparison`` is uncertain.

        ``driver`` is the simulated slowdown by a new driver (0.05: 5%).
        """
        of_entry, of_control = self.tuned()
        of_entry = Timing(*(t / (1 + driver) for t in (of_entry.median, of_entry.p25, of_entry.p75)), of_entry.count)
        assert comparison.control is not None
        then = AtTuning(of_entry, Control("library", of_control), "")
        return since(
            then, comparison.ratio, comparison.control, statistics.median(self.control_times), comparison.limit
        ).slower


def simulate(
    records: Sequence[Record], drawn: str, slowdown: float, runs: int, entries: int, seed: int, file: str
) -> Result:
    """Simulate ``runs`` checks of ``entries`` entries each. With a slowdown, a tenth of the entries are slowed."""
    limits, effort, rng = SlowdownLimits(), ComparisonEffort(seconds=math.inf), np.random.default_rng(seed)
    false_alarms = doubted = slowed = found_slow = slowed_quiet = found_quiet = settled = unsettled = revealed = 0
    for _ in range(runs):
        record_indices = rng.integers(len(records), size=entries)
        slow = set(range(entries // 10)) if slowdown else set()

        def noise(i: int, record_indices: Any = record_indices, slow: set[int] = slow) -> Noise:
            record, control = records[record_indices[i]], records[(record_indices[i] + 1) % len(records)]
            return Noise(record, control, slowdown if i in slow else 0.0, drawn, rng)

        noises = [noise(i) for i in range(entries)]
        first = {i: until_decided(entry_noise, limits, 0.0, effort) for i, entry_noise in enumerate(noises)}
        second = {i: until_decided(noise(i), limits, 0.0, effort) for i in flagged(first)}
        verdicts, doubt = judged(first, second, dict.fromkeys(first, limits))
        named = {i for i, j in verdicts.items() if j.verdict is SpeedChange.SLOWER}
        fine = [i for i, j in verdicts.items() if i not in slow and j.verdict in (SpeedChange.SAME, SpeedChange.FASTER)]
        settled += len(fine)
        unsettled += sum(noises[i].unsettled(first[i]) for i in fine)
        revealed += sum(noises[i].unsettled(first[i], DRIVER) for i in fine)
        quiet = {i for i in slow if relative_noise(list(records[record_indices[i]])) < QUIET}
        false_alarms += bool(named - slow)
        doubted += bool(doubt)
        slowed, found_slow = slowed + len(slow), found_slow + len(named & slow)
        slowed_quiet, found_quiet = slowed_quiet + len(quiet), found_quiet + len(named & quiet)
    slowed_ones = (slowed, found_slow, slowed_quiet, found_quiet)
    return Result(
        file, drawn, slowdown, runs, entries, false_alarms, doubted, *slowed_ones, settled, unsettled, revealed
    )


def results(folder: Path, runs: int, entries: int, seed: int) -> Iterator[Result]:
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]):
        records = recorded(path)
        records = records[: max(len(records) // 10, min(len(records), 2))]
        for drawn in DRAWS:
            for slowdown in (0.0, 0.02, 0.05):
                few = runs if not slowdown else max(runs // 10, 1)
                yield simulate(records, drawn, slowdown, few, entries, seed, path.name.partition(".")[0])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regression.guard_power", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--entries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    began, rows = time.monotonic(), []
    if not options.json:
        print(
            "| recorded on | drawn | slowdown | runs | runs with a false alarm | found | found, noise under 1% "
            "| uncertain | driver detected |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
    for result in results(options.folder, options.runs, options.entries, options.seed):
        rows.append(result)
        if not options.json:
            print(_row(result), flush=True)
    if not rows:
        print(
            f"guard_power: {options.folder} has no recorded spaces (*.json, *.json.gz): name another folder",
            file=sys.stderr,
        )
        return 2
    if options.json:
        print(json.dumps([asdict(r) for r in rows], indent=1))
    else:
        print(f"\n{options.entries} entries a run, seed {options.seed}, {time.monotonic() - began:.0f} s")
    return 0


def _row(r: Result) -> str:
    share = f"{r.found_slow / r.slowed:.1%} of {r.slowed}" if r.slowed else ""
    quiet = f"{r.found_quiet / r.slowed_quiet:.1%} of {r.slowed_quiet}" if r.slowed_quiet else ""
    doubted = f", {r.doubted} in doubt" if r.doubted else ""
    since = [f"{n / r.settled:.1%}" if r.settled else "" for n in (r.unsettled, r.revealed)]
    cells = (r.file, r.drawn, f"{r.slowdown:.0%}", r.runs, f"{r.false_alarms}{doubted}", share, quiet, *since)
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
