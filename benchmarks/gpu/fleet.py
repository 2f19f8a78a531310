"""Measure how busy a Ray cluster's GPUs are, and the loss when a node fails: ``python -m benchmarks.gpu.fleet``.

Eight simulated GPUs on two nodes of this machine take 50 ms per measurement. In a second run, one node is killed
halfway. The page is printed, or written to ``--out``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu.simulated_gpu import LOG, MODULE, SECONDS
from measurements.compiler.pool import CompileCache
from measurements.runners.base import Candidate
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.fleet.actors import FleetOptions
from measurements.runners.fleet.cluster import Fleet
from measurements.runners.fleet.compilers import FleetCompilers
from measurements.runners.fleet.runner import FleetRunner
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = Matmul(m=16, n=16, k=16)
GPUS, MEASURING = 8, 0.05


def simulated_gpu() -> Device:
    """Return the simulated GPUs that each node reports."""
    return device("h200")


def candidate(number: int) -> Candidate:
    source = f'extern "C" __global__ void kernel_{number}() {{}}\n'
    kernel = GeneratedKernel(
        entry=f"kernel_{number}", source=source, arguments=PROBLEM.operands(), grid=(1, 1, 1), block=(32, 1, 1)
    )
    return Candidate(PROBLEM, Schedule("matmul", (("number", number),)), kernel)


def busy(log: Path) -> float:
    """Return the mean share of time in which a GPU was measuring, from the first to the last measurement."""
    spans = [tuple(map(float, line.split()[:2])) for line in log.read_text().splitlines()]
    began, ended = min(b for b, _ in spans), max(e for _, e in spans)
    return sum(e - b for b, e in spans) / (GPUS * (ended - began))


PAGE = """# A fleet of simulated GPUs
How busy does a search on Ray keep eight GPUs? The GPUs are simulated: each of {jobs} measurements sleeps 50 ms.

{date}, Ray {ray}, two nodes on one machine with {machine}, two jobs in flight per GPU.
*Busy* is the share of time in which the eight simulated GPUs were measuring kernels,
between the first and the last measurement.
The goal is 95%.
The search, both nodes, Ray's actors and the worker processes share the cores and have {priority}.

    {command}

| run | load of the machine | measured | time | busy | actors lost | jobs repeated |
|---|---|---|---|---|---|---|
{rows}

After one node is killed midway, four of the eight GPUs remain.
Averaged over the whole run and all eight GPUs, *busy* then cannot exceed a limit between 50% and 75%.
The limit depends on when the node is killed.
Ray takes some seconds to detect the loss of a node. No measurement is wrong or lost.
"""

_FIRST = "real-time priority"
_BESIDE = "the same priority as other work on the machine"


def _first() -> bool:
    """Request real-time priority for this process and its children. Return True if the request was granted."""
    return os.sched_getscheduler(0) == os.SCHED_RR


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--jobs", type=int, default=1600, help="measurements per run (default: the number that eight GPUs make in 10 s)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="repetitions of the run in which no node is killed")
    parser.add_argument("--out", type=Path, help="file for the page (default: print it)")
    options = parser.parse_args()
    rows = [row for kills in [[False]] * options.rounds + [[True]] for row in measured(options.jobs, *kills)]
    import ray

    page = PAGE.format(
        date=datetime.now(UTC).date(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        ray=ray.__version__,
        jobs=options.jobs,
        priority=_FIRST if _first() else _BESIDE,
        command=" ".join([*(["chrt -r 1"] if _first() else []), "python -m benchmarks.gpu.fleet", *sys.argv[1:]]),
        rows="\n".join(rows),
    )
    if options.out is None:
        print(page)
    else:
        options.out.write_text(page)


def measured(jobs: int, kill: bool) -> Iterator[str]:
    """Measure one run, and yield its row of the table."""
    import ray
    from ray.cluster_utils import Cluster

    folder = Path(tempfile.mkdtemp(prefix="autosched-fleet-"))
    half: dict[str, Any] = {"num_cpus": 1, "num_gpus": GPUS // 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=half)
    node = cluster.add_node(**half)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        log = folder / "log"
        options = FleetOptions(
            cuda=CudaOptions(),
            worker_module=MODULE,
            worker_env={SECONDS: str(MEASURING), LOG: str(log)},
            compiler_module="instant_compiler",
            cache=str(folder / "theirs"),
            path=(str(ROOT), str(ROOT / "tests" / "support" / "fakes")),
            describe="benchmarks.gpu.fleet:simulated_gpu",
        )
        fleet = Fleet(cluster.address, options, compilers=1)
        runner = FleetRunner(fleet, fleet.device(None), FleetCompilers(fleet, CompileCache(folder / "ours")))
        candidates = [candidate(n) for n in range(jobs)]
        for _ in runner.compare(candidates[:1], rounds=1, library=False):
            pass  # compile every kernel first, since only the utilisation of the GPUs is measured
        list(runner.measure([candidate(10**6 + n) for n in range(2 * GPUS)]))
        for c in candidates:
            runner._pool.submit(c.kernel, "sm_90a").result()
        log.unlink(missing_ok=True)
        if kill:
            threading.Timer(jobs * MEASURING / GPUS / 2, cluster.remove_node, (node, False)).start()
        began = time.monotonic()
        results = dict(runner.measure(candidates))
        seconds = time.monotonic() - began
        lost = fleet.gpus(runner.device)
        ok = sum(m.ok for m in results.values())
        name = "one node killed midway" if kill else "all nodes"
        yield (
            f"| {name} | {os.getloadavg()[0]:.1f} | {ok} of {jobs} | {seconds:.1f} s | {busy(log):.1%} "
            f"| {lost.lost} | {lost.resubmitted} |"
        )
        fleet.close()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
