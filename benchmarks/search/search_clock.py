"""Simulate the wall-clock time of searches on recorded spaces, including proposals, compilation and measurement.

    python -m benchmarks.search.search_clock FOLDER [--files F ...] [--repeats 15] [--cores 2 16]

Each search runs until a schedule reaches 95% of the optimum. A compilation occupies one core for ``--compile-ms``, and
a measurement occupies the only GPU for ``--measure-ms``. A proposal takes the sampler's CPU time on this machine. Two
searches are compared: ``bayes`` with the in-flight limit of ``tune``, and ``evolution`` in batches of 16. A batch is
proposed and compiled while the previous batch is measured.
"""

from __future__ import annotations

import argparse
import heapq
import math
import os
import platform
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from autosched.replay.search import NEAR
from autosched.samplers import sampler
from autosched.tuning.in_flight import InFlightLimit
from measurements.tables.reading import read_table
from measurements.tables.table import Table
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace

MOST = 1500  # maximum number of evaluations in a search
BATCH = 16  # candidates per batch of ``evolution``


@dataclass(frozen=True)
class Costs:
    """Seconds of one compile and of one measurement."""

    compile: float
    measure: float


class Machine:
    """Simulated compilers and one GPU.

    The compilers process candidates in the order of proposals. The GPU measures candidates in the order in which their
    compilations finish.
    """

    def __init__(self, cores: int, costs: Costs) -> None:
        self._costs = costs
        self._compilers = [0.0] * cores  # for each compiler, the time at which it becomes free
        self._gpu = 0.0

    def finish(self, proposed: float) -> float:
        """Return the time at which a candidate that was proposed at time ``proposed`` has been measured."""
        compiled = max(heapq.heappop(self._compilers), proposed) + self._costs.compile
        heapq.heappush(self._compilers, compiled)
        self._gpu = max(self._gpu, compiled) + self._costs.measure
        return self._gpu


class Searcher:
    """A sampler with a simulated clock, which advances while the sampler proposes or waits for results."""

    def __init__(self, table: Table, space: UnionSpace, name: str, cores: int, costs: Costs, seed: int) -> None:
        self._table = table
        self._sampler = sampler(name, space, seed=seed)
        self._machine = Machine(cores, costs)
        self.now = 0.0
        self.reported = 0
        self.proposed = 0
        # pending candidates, each with the time at which its measurement completes
        self.out: deque[tuple[float, Schedule]] = deque()

    def propose(self, n: int) -> float:
        """Propose ``n`` more candidates, and return the time per proposal."""
        began = time.process_time()
        schedules = self._sampler.ask(n)
        spent = time.process_time() - began
        self.now += spent
        self.proposed += len(schedules)
        self.out += [(self._machine.finish(self.now), schedule) for schedule in schedules]
        return spent / max(len(schedules), 1)

    def wait(self) -> None:
        """Advance the clock until the next candidate has been measured."""
        self.now = max(self.now, self.out[0][0])

    def near(self) -> float | None:
        """Report completed results to the sampler. Return the time of the first result NEAR the optimum, or None."""
        while self.out and self.out[0][0] <= self.now:
            done, schedule = self.out.popleft()
            measurement = self._table.measurements[schedule]
            self._sampler.tell(schedule, measurement)
            self.reported += 1
            timing = measurement.timing
            if timing is not None and self._table.best_seconds / timing.median >= NEAR:
                return done
        return None


def stream(searcher: Searcher, in_flight: InFlightLimit, costs: Costs) -> tuple[float, int]:
    """Search like ``tune``, until a schedule is within NEAR of the optimum.

    Return the simulated seconds (infinite if there is no such schedule) and the number of evaluations.
    """
    while searcher.proposed < MOST:
        free_slots = in_flight.size(searcher.reported) - len(searcher.out)
        if free_slots > 0:
            before = searcher.proposed
            spent = searcher.propose(free_slots)
            in_flight.note("propose", [spent] * (searcher.proposed - before))
        if not searcher.out:
            break
        searcher.wait()
        near = searcher.near()
        in_flight.note("compile", [costs.compile])
        in_flight.note("measure", [costs.measure])
        if near is not None:
            return near, searcher.reported
    return math.inf, searcher.reported


def batches(searcher: Searcher, size: int) -> tuple[float, int]:
    """Search in batches. Return the same values as ``stream``.

    A batch is proposed while the previous one is measured, so the results of the previous batch are still unknown.
    """
    searcher.propose(size)
    while searcher.out and searcher.proposed < MOST:
        under_way = len(searcher.out)
        searcher.propose(size)
        searcher.now = max(searcher.now, searcher.out[under_way - 1][0])
        near = searcher.near()
        if near is not None:
            return near, searcher.reported
    return math.inf, searcher.reported


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations and print the table."""
    parser = argparse.ArgumentParser(description="Simulated time until a search reaches 95% of the optimum.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=None, metavar="F", help="names without .json.gz (default: all)")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--compile-ms", type=float, default=300.0)
    parser.add_argument("--measure-ms", type=float, default=20.0)
    options = parser.parse_args(arguments)
    files = sorted(f for f in options.folder.glob("*.json.gz"))
    files = [f for f in files if options.files is None or f.name.removesuffix(".json.gz") in options.files]
    if not files:
        print(f"search_clock: {options.folder} has no matching *.json.gz: name another folder", file=sys.stderr)
        return 2
    costs = Costs(options.compile_ms / 1e3, options.measure_ms / 1e3)
    print(
        f"Seconds to 95% of the optimum, medians of {options.repeats} searches; "
        f"a compile takes {options.compile_ms:g} ms, a measurement {options.measure_ms:g} ms. "
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), without a GPU.\n"
    )
    print("| recording | cores | evolution, batches of 16 | bayes, as in tune | ratio |\n|---|---:|---:|---:|---:|")
    for cores in options.cores:
        ratios = []
        for file in files:
            table = read_table(file)
            space = table.space()
            seeds = range(options.repeats)
            before = [batches(Searcher(table, space, "evolution", cores, costs, s), BATCH) for s in seeds]
            after = [
                stream(Searcher(table, space, "bayes", cores, costs, s), InFlightLimit(compilers=cores), costs)
                for s in seeds
            ]
            old, new = statistics.median(t for t, _ in before), statistics.median(t for t, _ in after)
            ratios.append(new / old)
            evaluations = [statistics.median(n for _, n in searches) for searches in (before, after)]
            print(
                f"| {file.name.removesuffix('.json.gz')} | {cores} | {old:.1f} ({evaluations[0]:g} trials) | "
                f"{new:.1f} ({evaluations[1]:g} trials) | {ratios[-1]:.2f} |",
                flush=True,
            )
        print(f"| geometric mean | {cores} | | | {float(np.exp(np.mean(np.log(ratios)))):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
