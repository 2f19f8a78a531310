"""The complete tuner works although a fifth of the candidates hang, crash, poison the context or give wrong results.

Results are stored in a database.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import instant_compiler
import pytest
from ended_processes import wait_until_ended
from faults import FOLDER_VARIABLE, HERE, MODULE, fault_kernel

from autosched.samplers import sampler
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.store.store import Store
from measurements.trials.measurement import Status
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

H200 = device("h200")
PROBLEM = Matmul(m=16, n=16, k=16)
BAD = {
    "hang": Status.TIMEOUT,
    "segfault": Status.CRASHED,
    "exit": Status.CRASHED,
    "garbage": Status.CRASHED,
    "raise": Status.CRASHED,
    "poison": Status.LAUNCH_ERROR,
    "wrong": Status.WRONG_RESULT,  # the fake time of this candidate is the shortest
    "negative": Status.CRASHED,
    "nonsense": Status.CRASHED,
}
BEST = 77


def fate(i: int) -> str:
    return list(BAD)[i // 5 % len(BAD)] if i % 5 == 0 else "time"


def generate(problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
    i = schedule.integer("i")
    time = 1500 if i == BEST else 1600 + i
    return fault_kernel(f"time_{time}_{i}" if fate(i) == "time" else f"{fate(i)}_{i}", problem)


def test_every_candidate_has_a_trial_and_the_best_is_found(tmp_path: Path, nightly: bool) -> None:
    count = 500 if nightly else 90
    space = Space("toy", (ordinal("i", tuple(range(count))),))
    pids: set[int] = set()

    class Watch:
        def started(self, start: object) -> None:
            pass

        def trial(self, progress: object) -> None:
            pids.update(runner.pids)
            pids.update(pool.pids)

    with CompilePool(
        CompileCache(tmp_path / "cache"),
        workers=1,
        worker_module="instant_compiler",
        python_path=[instant_compiler.HERE],
    ) as pool:
        options = CudaOptions(limits=TimeLimits(candidate=0.6, health=10.0, retry_pauses=(0.05, 0.2)))
        environment = {FOLDER_VARIABLE: str(tmp_path)}
        runner = CudaRunner(
            H200, pool, gpus=(0, 1), options=options, worker_module=MODULE, worker_path=[HERE], worker_env=environment
        )
        with Store.open(tmp_path / "a.db") as store:
            result = Tuner(
                TunerParts(
                    RunIdentity(PROBLEM, H200, runner.provenance, None, 1, {}, {"toy": "s"}),
                    runner,
                    store,
                    sampler("random", space, seed=1),
                    generate=generate,
                    observer=Watch(),
                )
            ).run(SearchPlan(trials=count))
            trials = [r for r in store.trials() if r.rank is None]
        runner.close()
    assert not result.stopped
    assert sorted(r.schedule.integer("i") for r in trials) == list(range(count))
    for trial in trials:
        expected = BAD.get(fate(trial.schedule.integer("i")), Status.OK)
        assert trial.status is expected, (trial.schedule["i"], trial.measurement.reason)
    assert sum(result.failures.values()) == count // 5
    assert result.best is not None and result.best.schedule["i"] == BEST
    assert result.best.rank == 1 and result.remeasured is not None and result.remeasured.clear
    assert len(pids) > count // 10
    wait_until_ended(*pids)
    with closing(sqlite3.connect(tmp_path / "a.db")) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with Store.open(tmp_path / "a.db", create=False) as store:
        assert store.best(PROBLEM, "h200") == result.best
