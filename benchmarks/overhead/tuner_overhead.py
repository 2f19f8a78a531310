"""Measure the tuner's own time per trial, and the utilisation of the GPU and the compilers.

    python -m benchmarks.overhead.tuner_overhead [--trials 160] [--repeats 3] [--workers 2] [--measure-ms 20]
        [--sampler evolution] [--json]

Three searches of an f16 matmul for h200, with an SQLite database:

1. The runner responds immediately, so that only the tuner takes time (goal: under 10 ms per trial). Each repeat is a
new process without caches.
2. NVRTC compiles into an empty cache, and measurements sleep in the worker process. The share of the time during which
the compilers are busy is reported (goal: over 90 %).
3. The same trials run with a full cache and an empty database. The share of the time during which the measuring process
is busy is reported (goal: over 80 %).

The first and the last search are repeated, and the best result counts, because other load can only make results worse.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from autosched.samplers import sampler, samplers
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from benchmarks.gpu.simulated_gpu import LOG, MODULE, SECONDS
from benchmarks.overhead.logged_compiler import LOG as COMPILE_LOG
from benchmarks.overhead.logged_compiler import MODULE as COMPILER
from cost_models.estimates import AnalyticEstimates
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.base import Candidate, Runner
from measurements.runners.cuda.runner import CudaRunner
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.search_task import SearchTask
from search_spaces.templates.template import TemplateSet

H200 = device("h200")
PROBLEM = Matmul(m=4096, n=4096, k=4096)


class Instant:
    """A runner that returns immediately, with a fake time derived from the candidate's digest."""

    name, provenance = "instant", Provenance.MEASURED

    def describe(self) -> str:
        return "backend instant: fake times"

    def fingerprint(self) -> dict[str, str]:
        return {"device": "h200"}

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for position, candidate in enumerate(candidates):
            seconds = 1e-5 + 1e-9 * (int(candidate.kernel.digest[:6], 16) % 10_000)
            yield position, Measurement(Status.OK, self.provenance, timing=Timing(seconds, seconds, seconds, 7))

    def close(self) -> None:
        pass


def tune(runner: Runner, database: Path, name: str, trials: int, seed: int) -> tuple[float, float, int]:
    """Return the wall seconds of a search, its CPU seconds, and the number of trials that were timed."""
    templates = TemplateSet([template("matmul")])
    space = templates.space(PROBLEM, H200)
    searcher = sampler(name, space, seed=seed, estimates=AnalyticEstimates(PROBLEM, templates, H200))
    searcher.ask(0)  # build tables of the space and load libraries before the clock starts: both happen only once
    space.sample(1, 0)
    with Store.open(database) as store:
        processor = time.process_time()
        identity = RunIdentity.of(SearchTask(PROBLEM, H200, templates, space), runner.provenance, None, seed)
        tuner = Tuner(TunerParts(identity, runner, store, searcher, generate=templates.kernel))
        result = tuner.run(SearchPlan(trials=trials))
        processor = time.process_time() - processor
    if result.stopped:
        raise RuntimeError(result.stopped)
    return result.seconds, processor, result.ok


def measured(log: Path) -> float:
    """Return the seconds during which the logged processes were busy."""
    spans = [[float(t) for t in line.split()[:2]] for line in log.read_text().splitlines()]
    return sum(end - begin for begin, end in spans)


def pipeline(
    folder: Path, cache: Path, name: str, trials: int, workers: int, measure_seconds: float, seed: int
) -> dict[str, Any]:
    folder.mkdir()
    log, compile_log = folder / "log", folder / "compile-log"
    log.touch()
    compile_log.touch()
    environment = {SECONDS: str(measure_seconds), LOG: str(log)}
    os.environ[COMPILE_LOG] = str(compile_log)
    with CompilePool(CompileCache(cache), workers=workers, worker_module=COMPILER) as pool:
        runner = CudaRunner(H200, pool, worker_module=MODULE, worker_env=environment)
        runner.fingerprint()  # start the worker before the measurement
        before = measured(compile_log)
        seconds, _, ok = tune(runner, folder / "a.db", name, trials, seed)
        runner.close()
    compiling = measured(compile_log) - before
    return {
        "seconds": seconds,
        "ok": ok,
        "measurements": len(log.read_text().splitlines()),
        "compiles": len(compile_log.read_text().splitlines()),
        "measuring_busy": measured(log) / seconds,
        "compiling_busy": compiling / (workers * seconds),
    }


def instant(database: Path, name: str, trials: int, seed: int) -> dict[str, float]:
    """Return the tuner's own wall-clock and CPU milliseconds per trial."""
    seconds, processor, _ = tune(Instant(), database, name, trials, seed)
    return {"overhead_ms": 1e3 * seconds / trials, "overhead_processor_ms": 1e3 * processor / trials}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.tuner_overhead", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--trials", type=int, default=160)
    parser.add_argument(
        "--repeats", type=int, default=3, help="repeats of the first and last search; the best result counts"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--measure-ms", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sampler", default="evolution", choices=samplers())
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    measure_seconds = options.measure_ms * 1e-3
    with tempfile.TemporaryDirectory(prefix="tuner-overhead-") as name:
        folder = Path(name)
        spawn = get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as fresh:
            databases = [folder / f"instant-{i}.db" for i in range(options.repeats)]
            alone = list(
                fresh.map(instant, databases, repeat(options.sampler), repeat(options.trials), repeat(options.seed))
            )
        settings = (folder / "cache", options.sampler, options.trials, options.workers, measure_seconds, options.seed)
        compiled = pipeline(folder / "cold", *settings)
        cached = [pipeline(folder / f"full-{i}", *settings) for i in range(options.repeats)]
        report: dict[str, Any] = {
            "date": datetime.now(UTC).date().isoformat(),
            "cpus": os.cpu_count(),
            "load": os.getloadavg()[0],
            "sampler": options.sampler,
            "trials": options.trials,
            "repeats": options.repeats,
            "workers": options.workers,
            "measure_ms": options.measure_ms,
            **min(alone, key=lambda run: run["overhead_ms"]),
            "compiled": compiled,
            "cached": max(cached, key=lambda run: run["measuring_busy"]),
        }
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    best = report["cached"]
    print(f"load average {report['load']:.1f} on {report['cpus']} cores, {options.trials} trials of {options.sampler}")
    print(f"the tuner's own time: {report['overhead_ms']:.1f} ms per trial", end="")
    print(f" ({report['overhead_processor_ms']:.1f} ms of CPU time)")
    print(f"compiling: {compiled['seconds']:.1f} s, compilers busy {100 * compiled['compiling_busy']:.1f} %")
    print(f"cached:    {best['seconds']:.1f} s, measuring process busy {100 * best['measuring_busy']:.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
