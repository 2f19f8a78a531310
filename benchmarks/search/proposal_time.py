"""Measure the default sampler's CPU time per proposal, in a space of 10^13 schedules and in a recorded space.

    python -m benchmarks.search.proposal_time [--trials 400] [--part 100] [--device h200] [--recording FILE]

The large space has all valid schedules of the first matmul in ``benchmarks/gpu/problems.py``, without pruning rules.
The times of kernels come from the time model, which the sampler does not use. ``--recording`` names a Kernel Tuner
cache that is also searched. Prints the CPU time of building the large space, and the mean CPU time per trial of each
group of ``--part`` consecutive trials. Goals: under 100 ms in the large space, and under 30 ms in a space of 20,000
schedules.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autosched.samplers import DEFAULT, sampler
from benchmarks.gpu.problems import matmuls
from cost_models.estimates import AnalyticEstimates
from measurements.tables.reading import read_table
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.union_space import UnionSpace
from search_spaces.templates.template import TemplateSet

Judge = Callable[[Schedule], Measurement]


def proposals(space: SearchSpace, judge: Judge, trials: int, seed: int) -> list[float]:
    """Return the CPU seconds of each trial in one search. The first trial includes the sampler's set-up."""
    spent = []
    began = time.process_time()
    searcher = sampler(DEFAULT, space, seed=seed)
    for _ in range(trials):
        proposals = searcher.ask(1)
        own = time.process_time() - began
        if not proposals:
            break
        result = judge(proposals[0])
        began = time.process_time()
        searcher.tell(proposals[0], result)
        spent.append(own + time.process_time() - began)
        began = time.process_time()
    return spent


def unpruned(chip: Device) -> tuple[UnionSpace, Judge]:
    """Return the space of all valid schedules of a matmul, and a table of their times by the analytic model."""
    problem = matmuls()[0][1]
    templates = TemplateSet([t for t in templates_for(problem, chip) if t.counts is not None])
    space = UnionSpace([member.valid for member in templates.space(problem, chip).members.values()])
    model = AnalyticEstimates(problem, templates, chip)

    def judge(schedule: Schedule) -> Measurement:
        logarithm = float(model.log_seconds([schedule])[0])
        if not math.isfinite(logarithm):
            return Measurement(Status.LAUNCH_ERROR, Provenance.ESTIMATED, reason="does not fit on the device")
        return Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.of([math.exp(logarithm)]))

    return space, judge


def main(arguments: Sequence[str] | None = None) -> int:
    """Search once in each space and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search.proposal_time", description="CPU time per proposal of the default sampler."
    )
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--part", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--recording", type=Path, default=None)
    options = parser.parse_args(arguments)
    began = time.process_time()
    space, judge = unpruned(device(options.device))
    space.sample(1, 0)
    print(f"building the large space: {time.process_time() - began:.1f} s of CPU time")
    spaces: list[tuple[str, SearchSpace, Judge]] = [("all valid schedules of a matmul", space, judge)]
    if options.recording is not None:
        table = read_table(options.recording)
        spaces.append((options.recording.name, table.space(), table.measurements.__getitem__))
    for name, searched, judged in spaces:
        spent = proposals(searched, judged, options.trials, options.seed)
        parts = [spent[i : i + options.part] for i in range(0, len(spent), options.part)]
        means = ", ".join(f"{1e3 * sum(part) / len(part):.0f}" for part in parts)
        mean = 1e3 * sum(spent) / len(spent)
        print(
            f"{name}, {searched.count():.1e} schedules, {len(spent)} trials: {mean:.1f} ms each, "
            f"the longest {1e3 * max(spent):.0f} ms; mean of each {options.part} trials: {means} ms"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
