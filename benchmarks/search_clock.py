"""How long a search takes by the clock, simulated on recorded spaces: compiling, measuring and proposing all cost.

    python -m benchmarks.search_clock FOLDER [--files F ...] [--repeats 15] [--cores 2 16]

Each search runs until 95% of the optimum. A compile takes ``--compile-ms`` on one of the cores, a measurement
``--measure-ms`` on the one GPU, in the order in which they become ready; a proposal takes the CPU time that the sampler
needs for it here. Compared are ``bayes`` with the batches of ``autosched/pace.py``, and what ``tune`` did before:
``evolution`` with batches of 16, the next of which is always proposed and compiled while one is measured. Prints the
table of medians that is in ``benchmarks/results/search_clock.md``.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from autosched.pace import FixedPace, Pace
from autosched.replay import NEAR
from autosched.search import sampler
from measurements.tables.reading import read_table
from measurements.tables.table import Table
from search_spaces.spaces.union_space import UnionSpace

MOST = 1500  # evaluations of a search


@dataclass(frozen=True)
class Costs:
    """Seconds of one compile and of one measurement."""

    compile: float
    measure: float


class Machine:
    """Compilers that take what was proposed first, and one GPU that takes what was compiled first."""

    def __init__(self, cores: int, costs: Costs) -> None:
        self._costs = costs
        self._compilers = [0.0] * cores  # when each is free
        self._gpu = 0.0

    def finish(self, proposed: float, count: int) -> float:
        """When the last of ``count`` candidates, proposed at that time, is measured."""
        compiled = []
        for _ in range(count):
            begin = max(heapq.heappop(self._compilers), proposed)
            heapq.heappush(self._compilers, begin + self._costs.compile)
            compiled.append(begin + self._costs.compile)
        for ready in sorted(compiled):
            self._gpu = max(self._gpu, ready) + self._costs.measure
        return self._gpu


def simulate(
    table: Table, space: UnionSpace, name: str, pace: Pace, cores: int, costs: Costs, seed: int
) -> tuple[float, int]:
    """Simulated seconds and evaluations until NEAR the optimum; infinite where it is never found."""
    made, machine = sampler(name, space, seed=seed), Machine(cores, costs)
    pace.note("compile", [costs.compile])
    pace.note("measure", [costs.measure])
    now, told, asked = 0.0, 0, 0
    waiting = []  # batches: (when it is measured, its schedules)

    def propose(at: float) -> float:
        """Propose and compile a batch from ``at`` on; when proposing ended."""
        nonlocal asked
        began = time.process_time()
        schedules = made.ask(pace.size(told))
        spent = time.process_time() - began
        pace.note("propose", [spent / max(len(schedules), 1)])
        asked += len(schedules)
        if schedules:
            waiting.append((machine.finish(at + spent, len(schedules)), schedules))
        return at + spent

    now = propose(0.0)
    while waiting and asked < MOST:
        done, schedules = waiting.pop(0)
        ahead = pace.overlaps(len(schedules), told)
        proposed = propose(now) if ahead else now
        for schedule in schedules:
            timing = table.measurements[schedule].timing
            if timing is not None and table.best_seconds / timing.median >= NEAR:
                return done, asked
        now = max(done, proposed)
        for schedule in schedules:
            made.tell(schedule, table.measurements[schedule])
        told += len(schedules)
        if not ahead:
            now = propose(now)
    return float("inf"), asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Time to 95% of the optimum, by a simulated clock.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=None, metavar="F", help="names without .json.gz (default: all)")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 16])
    parser.add_argument("--compile-ms", type=float, default=300.0)
    parser.add_argument("--measure-ms", type=float, default=20.0)
    given = parser.parse_args(arguments)
    files = sorted(f for f in given.folder.glob("*.json.gz"))
    files = [f for f in files if given.files is None or f.name.removesuffix(".json.gz") in given.files]
    if not files:
        print(f"search_clock: {given.folder} holds no such *.json.gz", file=sys.stderr)
        return 2
    costs = Costs(given.compile_ms / 1e3, given.measure_ms / 1e3)
    print(
        f"Seconds to 95% of the optimum, medians of {given.repeats} searches; a compile takes {given.compile_ms:g} ms, "
        f"a measurement {given.measure_ms:g} ms. {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores "
        f"({platform.machine()}), without a GPU.\n"
    )
    print(
        "| recording | cores | evolution, batches of 16 | bayes, batches that grow | ratio |\n|---|---:|---:|---:|---:|"
    )
    for cores in given.cores:
        ratios = []
        for file in files:
            table = read_table(file)
            space = table.space()
            seeds = range(given.repeats)
            before = [simulate(table, space, "evolution", FixedPace(16), cores, costs, s) for s in seeds]
            after = [simulate(table, space, "bayes", Pace(compilers=cores), cores, costs, s) for s in seeds]
            old, new = statistics.median(t for t, _ in before), statistics.median(t for t, _ in after)
            ratios.append(new / old)
            evaluations = [statistics.median(n for _, n in found) for found in (before, after)]
            print(
                f"| {file.name.removesuffix('.json.gz')} | {cores} | {old:.1f} ({evaluations[0]:g} trials) | "
                f"{new:.1f} ({evaluations[1]:g} trials) | {ratios[-1]:.2f} |",
                flush=True,
            )
        print(f"| geometric mean | {cores} | | | {float(np.exp(np.mean(np.log(ratios)))):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
