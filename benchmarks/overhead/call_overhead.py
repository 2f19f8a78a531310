"""Measure the cold start of a process, and the overhead of calling a tuned kernel compared with a raw cupy launch.

    python -m benchmarks.overhead.call_overhead [--rounds 200] [--calls 500] [--starts 7] [--json]

The driver is simulated (``gpu/simulated_driver.py``). Rounds of the different kinds of calls alternate. The overhead of
a kind of call is the median, over the rounds, of the call's time minus the time of the raw launch. The minimum of the
call minus the minimum of the raw launch is also printed: other processes affect this difference less.

A cold start is measured in a new process that has imported cupy: from ``import autosched`` until the kernel can be
called. The result of the look-up and the cubin are in the cache. The very first start, which queries the database and
compiles, is reported separately.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem

PROBLEM = {"m": 4096, "n": 4096, "k": 4096}
_START = """
import sys, time
import numpy, cupy
from benchmarks.gpu.simulated_driver import SimulatedDriver
sys.modules["cupy"] = cp = SimulatedDriver()
began, cpu = time.perf_counter(), time.process_time()
import autosched
kernel = autosched.Database(sys.argv[1]).kernel(autosched.Matmul(m=4096, n=4096, k=4096))
print(time.perf_counter() - began, time.process_time() - cpu, kernel.provenance.kind)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOSCHED_CACHE_DIR"] = str(Path(folder) / "cache")
        path = str(Path(folder) / "best.db")
        tuned(path, Matmul(**PROBLEM))
        starts = [started(path) for _ in range(options.starts + 1)]
        results = {
            "load": os.getloadavg()[0],
            "starts": starts,
            "calls": overheads(path, options.rounds, options.calls),
        }
    print(json.dumps(results) if options.json else shown(results))
    return 0


def tuned(path: str, problem: Problem, of: str = "matmul", clustered: bool = False) -> None:
    """Add a trial on h200 to a database, as ``tune`` would.

    Args:
        path: The database.
        problem: Problem of the trial.
        of: Kernel template of the schedule. The generated kernel must have no workspaces.
        clustered: True for a schedule with clusters of several blocks.
    """
    from datetime import UTC, datetime

    from autosched.version import VERSION
    from measurements.compiler.nvrtc import toolchain_version
    from measurements.store.store import Store
    from measurements.trials.measurement import Measurement, Provenance, Status, Timing
    from measurements.trials.trial import Trial
    from search_spaces.catalogue import template
    from search_spaces.hardware.devices import device

    row, kernel_template = device("h200"), template(of)
    schedules = kernel_template.space(problem, row).sample(64, 0)
    generated = ((schedule, kernel_template.kernel(problem, schedule, row)) for schedule in schedules)
    # Choose a kernel without workspaces: the simulated driver does not support workspaces.
    schedule = next(
        schedule
        for schedule, kernel in generated
        if all(o.role != "workspace" for o in kernel.operands) and (kernel.cluster != (1, 1, 1)) == clustered
    )
    trial = Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device=row.name,
        fingerprint="{}",
        template_version=kernel_template.version,
        space_version="",
        kernel_digest=kernel_template.kernel(problem, schedule, row).digest,
        measurement=Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([1e-3])),
        toolchain=toolchain_version(),
        driver="",
        autosched_version=VERSION,
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )
    with Store.open(path) as store:
        store.append(trial)


def started(path: str) -> tuple[float, float]:
    """Return the wall and CPU seconds of a cold start in a separate process."""
    compiled = str(Path(path).parent / "compiled")  # start with compiled bytecode, as for an installed package
    env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    run = subprocess.run([sys.executable, "-c", _START, path], capture_output=True, text=True, check=True, env=env)
    wall, cpu, kind = run.stdout.split()
    assert kind == "exact", run.stdout
    return float(wall), float(cpu)


def overheads(path: str, rounds: int, calls: int) -> dict[str, tuple[float, float]]:
    """Return the overhead of each kind of call: the median over the rounds, and the difference of the minima."""
    from benchmarks.gpu.simulated_driver import SimulatedDriver, launch

    sys.modules["cupy"] = cp = SimulatedDriver()  # type: ignore[assignment]
    import autosched

    kernel = autosched.Database(path).kernel(autosched.Matmul(**PROBLEM))
    a, b, out = (cp.empty((4096, 4096), "float16") for _ in range(3))
    bound = kernel.bind(a, b, out)
    autosched.use(path)
    grid, block = (1024, 1, 1), (256, 1, 1)

    def raw() -> None:
        launch(grid, block, (a, b, out), shared_mem=0)

    def raw_with_a_new_output() -> None:
        launch(grid, block, (a, b, cp.empty((4096, 4096), "float16")), shared_mem=0)

    variants: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "bound()": (bound, raw),
        "kernel(a, b, out=out)": (lambda: kernel(a, b, out=out), raw),
        "kernel(a, b)": (lambda: kernel(a, b), raw_with_a_new_output),
        "autosched.matmul(a, b, out)": (lambda: autosched.matmul(a, b, out), raw),
        "autosched.matmul(a, b)": (lambda: autosched.matmul(a, b), raw_with_a_new_output),
    }
    return in_turns(variants, rounds, calls)


def in_turns(
    variants: dict[str, tuple[Callable[[], Any], Callable[[], Any]]], rounds: int, calls: int
) -> dict[str, tuple[float, float]]:
    """Return how many seconds slower the first call of each pair is: median over rounds, and difference of minima."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, (ours, base) in variants.items():
            times[name].append((seconds(ours, calls), seconds(base, calls)))
    return {
        name: (statistics.median(o - b for o, b in both), min(o for o, _ in both) - min(b for _, b in both))
        for name, both in times.items()
    }


def seconds(call: Callable[[], Any], calls: int) -> float:
    """Return the CPU seconds per call."""
    began = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - began) / calls


def shown(results: dict[str, Any]) -> str:
    """Return the tables of the results page."""
    lines = ["| call | overhead, median | overhead, from the minima |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {m * 1e6:.1f} us | {least * 1e6:.1f} us |" for name, (m, least) in results["calls"].items()
    ]
    first, *cold = results["starts"]
    walls, cpus = [wall for wall, _ in cold], [cpu for _, cpu in cold]
    lines += ["", "| start of a process | median | minimum | CPU time, minimum |", "|---|---|---|---|"]
    lines.append(
        f"| looked-up schedule and cubin in the cache | {statistics.median(walls) * 1e3:.0f} ms | "
        f"{min(walls) * 1e3:.0f} ms "
        f"| {min(cpus) * 1e3:.0f} ms |"
    )
    lines.append(f"| first start | {first[0] * 1e3:.0f} ms | | {first[1] * 1e3:.0f} ms |")
    return "\n".join([*lines, "", f"Load average {results['load']:.1f}."])


if __name__ == "__main__":
    sys.exit(main())
