"""How busy are the GPUs of a Ray cluster, and is anything lost with a node? ``python -m benchmarks.gpu.fleet``.

Eight pretended GPUs on two nodes of this machine, 50 ms a measurement; then the same with one node killed midway.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
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
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = Matmul(m=16, n=16, k=16)
GPUS, MEASURING = 8, 0.05


def pretended() -> Device:
    """What each node says that its GPUs are."""
    return device("h200")


def candidate(number: int) -> Candidate:
    source = f'extern "C" __global__ void kernel_{number}() {{}}\n'
    kernel = Kernel(
        entry=f"kernel_{number}", source=source, arguments=PROBLEM.operands(), grid=(1, 1, 1), block=(32, 1, 1)
    )
    return Candidate(PROBLEM, Schedule("matmul", (("number", number),)), kernel)


def busy(log: Path) -> float:
    """The part of the time between the first measurement and the last that eight GPUs measured."""
    spans = [tuple(map(float, line.split()[:2])) for line in log.read_text().splitlines()]
    began, ended = min(b for b, _ in spans), max(e for _, e in spans)
    return sum(e - b for b, e in spans) / (GPUS * (ended - began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=640)
    jobs = parser.parse_args().jobs
    import ray
    from ray.cluster_utils import Cluster

    folder = Path(tempfile.mkdtemp(prefix="autosched-fleet-"))
    half: dict[str, Any] = {"num_cpus": 1, "num_gpus": GPUS // 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=half)
    node = cluster.add_node(**half)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        for kill in (False, True):
            log = folder / f"log-{kill}"
            options = FleetOptions(
                cuda=CudaOptions(),
                worker_module=MODULE,
                worker_env={SECONDS: str(MEASURING), LOG: str(log)},
                compiler_module="instant_compiler",
                cache=str(folder / "theirs"),
                path=(str(ROOT), str(ROOT / "tests" / "support" / "fakes")),
                describe="benchmarks.gpu.fleet:pretended",
            )
            fleet = Fleet(cluster.address, options, compilers=1)
            runner = FleetRunner(fleet, fleet.device(None), FleetCompilers(fleet, CompileCache(folder / "ours")))
            candidates = [candidate(n) for n in range(jobs)]
            for _ in runner.compare(candidates[:1], rounds=1, library=False):
                pass  # every program is compiled first: what is asked is how GPUs are kept busy
            list(runner.measure([candidate(10**6 + n) for n in range(2 * GPUS)]))
            for c in candidates:
                runner._pool.submit(c.kernel, "sm_90a").result()
            log.unlink(missing_ok=True)
            if kill:
                threading.Timer(jobs * MEASURING / GPUS / 2, cluster.remove_node, (node, False)).start()
            began = time.monotonic()
            found = dict(runner.measure(candidates))
            seconds = time.monotonic() - began
            lost = fleet.gpus(runner.device)
            ok = sum(m.ok for m in found.values())
            print(
                f"{'one node killed' if kill else 'all nodes'}: {ok} of {jobs} measured in {seconds:.1f} s, "
                f"{busy(log):.1%} busy, {lost.lost} actors lost, {lost.given_again} jobs given again; "
                f"load of this machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            )
            fleet.close()
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
