"""A GPU's actor, tested without a cluster, accepts two calls at a time. Its GPU executes them one after the other."""

from __future__ import annotations

import hashlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from faults import fault_kernel

from benchmarks.gpu.simulated_gpu import LOG, MODULE, SECONDS
from measurements.compiler.cubin_cache import Compiled
from measurements.runners.cuda import check_kernels
from measurements.runners.cuda.references import SentArrays
from measurements.runners.fleet.actors import (
    CALLS,
    DATA_SETS,
    Arrays,
    CandidateWork,
    FleetOptions,
    GpuActor,
    SentModule,
    SentProblem,
)
from measurements.trials.measurement import Resources
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.operators.matmul import Matmul

ROOT = str(Path(__file__).resolve().parents[4])


def sent_module(folder: Path, kernel: GeneratedKernel) -> SentModule:
    """Return a module to send, whose cubin is the kernel's source."""
    content = kernel.source.encode()
    digest = hashlib.sha256(content).hexdigest()
    file = folder / digest
    file.write_bytes(content)
    resources = Resources(8, 0, 0, 0, 0, 0)
    return SentModule.of(Compiled(file, digest, kernel.entry, resources, 0.0, "", "sm_90a", "instant", cached=False))


def work(folder: Path, problem: Matmul, name: str) -> CandidateWork:
    kernel = fault_kernel(name, problem)
    launch = Launch(**{field: getattr(kernel, field) for field in Launch.__dataclass_fields__})
    return CandidateWork(SentProblem.of(problem), launch, sent_module(folder, kernel))


def test_concurrent_calls_are_measured_one_after_the_other(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = FleetOptions(worker_module=MODULE, worker_env={SECONDS: "0.05", LOG: str(log)}, path=(ROOT,))
    actor, checks = GpuActor(options), sent_module(tmp_path, check_kernels.KERNEL)
    problems = (Matmul(m=16, n=16, k=16), Matmul(m=32, n=16, k=16))
    works = [work(tmp_path, problems[n % 2], f"time_{n}") for n in range(6)]

    def measure(candidate: CandidateWork) -> Any:
        return actor.measure(device("h200"), checks, None, candidate)

    with ThreadPoolExecutor(CALLS) as calls:
        results = list(calls.map(measure, works))
    actor._equipped(device("h200"), checks, None).close()
    assert all(measurement.ok for measurement, _ in results)
    assert len({measurement.timing.median for measurement, _ in results}) == len(works)  # one module per call
    spans = sorted(tuple(map(float, line.split()[:2])) for line in log.read_text().splitlines())
    assert len(spans) == len(works)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_an_actor_keeps_the_arrays_of_the_last_data_sets() -> None:
    actor = GpuActor(FleetOptions())
    for number in range(DATA_SETS + 2):
        actor._references.give(Arrays(str(number), SentArrays({"inputs": str(number)}, {})))
    assert list(actor._references._sent_arrays) == [str(n) for n in range(2, DATA_SETS + 2)]
