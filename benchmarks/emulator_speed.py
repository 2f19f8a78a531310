"""How long it takes to emulate matmul candidates, compile included.

    python benchmarks/emulator_speed.py [--sample 100] [--workers 2] [--seed 7] [--json]

One 256x256x256 f16 tensor-core candidate on one core (goal: under 3 s), then a sample of mixed candidates on
``--workers`` cores (goal: 100 on 2 cores in under 4 minutes). Nothing is taken from an earlier run's cache, and the
runner, which is compiled once per machine, is timed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from measurements.emulator import EmulationJob, emulate, emulate_many, host_compiler
from measurements.emulator.build import runner
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

H200 = device("h200")

# Mixed kinds: types, storage orders, epilogues, batches, sizes with and without remainders.
PROBLEMS = (
    Matmul(256, 256, 256),
    Matmul(131, 70, 99),
    Matmul(131, 70, 99, a="bf16", b="bf16", out="f32", order_a="col", epilogue="bias+gelu"),
    Matmul(128, 192, 160, a="f32", b="f32", out="f32", order_b="col"),
    Matmul(100, 60, 256, batch=3, epilogue="relu"),
)


def sample(problem: Matmul, count: int, seed: int) -> list[Schedule]:
    return template("matmul").space(problem, H200).sample(count, seed)


def job(problem: Matmul, schedule: Schedule, check: bool = True) -> EmulationJob:
    return EmulationJob(template("matmul").kernel(problem, schedule, H200), problem.random_inputs(0), check=check)


def tensor_core_candidate() -> dict[str, Any]:
    problem = PROBLEMS[0]
    schedule = next(s for s in sample(problem, 500, 0) if s.text("intrinsic") == "mma_m16n8k16_f16")
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        started = time.monotonic()
        one = job(problem, schedule)
        result = emulate(one.kernel, one.inputs)
        seconds = time.monotonic() - started
    finally:
        os.sched_setaffinity(0, everywhere)
    return {
        "status": result.status,
        "seconds": seconds,
        "compile_seconds": result.compile_seconds,
        "run_seconds": result.run_seconds,
        "schedule": schedule.to_json(),
    }


def mixed_candidates(count: int, workers: int, seed: int) -> dict[str, Any]:
    share = -(-count // len(PROBLEMS))
    drawn = [(p, s) for p in PROBLEMS for s in sample(p, share, seed)][:count]

    def jobs() -> Iterator[EmulationJob]:
        return (job(p, s) for p, s in drawn)

    started = time.monotonic()
    results = list(emulate_many(jobs(), workers))
    seconds = time.monotonic() - started
    slowest = max(range(len(results)), key=lambda i: results[i].seconds)
    return {
        "count": len(results),
        "workers": workers,
        "seconds": seconds,
        "status": dict(Counter(r.status for r in results)),
        "intrinsics": dict(Counter(s.text("intrinsic") for _, s in drawn)),
        "compile_seconds": sum(r.compile_seconds for r in results),
        "run_seconds": sum(r.run_seconds for r in results),
        "slowest_seconds": results[slowest].seconds,
        "slowest_problem": drawn[slowest][0].key(),
        "slowest_schedule": drawn[slowest][1].to_json(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="emulator-speed-") as folder:
        os.environ["AUTOSCHED_CACHE_DIR"] = folder
        started = time.monotonic()
        runner()
        report: dict[str, Any] = {
            "compiler": host_compiler().identity,
            "cpus": os.cpu_count(),
            "runner_seconds": time.monotonic() - started,
            "tensor_core_256": tensor_core_candidate(),
            "mixed": mixed_candidates(options.sample, options.workers, options.seed),
        }
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    one, many = report["tensor_core_256"], report["mixed"]
    print(f"{report['compiler']}, {report['cpus']} CPUs; runtime compiled once in {report['runner_seconds']:.1f} s")
    print(
        f"256x256x256 f16 mma.sync on one core: {one['seconds']:.2f} s "
        f"(compile {one['compile_seconds']:.2f}, run {one['run_seconds']:.2f}), {one['status']}"
    )
    print(
        f"{many['count']} mixed candidates on {many['workers']} cores: {many['seconds']:.1f} s "
        f"(compile {many['compile_seconds']:.1f}, run {many['run_seconds']:.1f}, "
        f"slowest {many['slowest_seconds']:.2f}), {many['status']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
