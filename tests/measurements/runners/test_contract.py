"""Every backend fulfils the contract of runners. One class of tests checks all backends."""

import dataclasses
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from cases import representative
from faults import FOLDER_VARIABLE, HERE, MODULE, fault_kernel

from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.base import Candidate, Runner, Streaming
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.runners.estimate import EstimateRunner
from measurements.runners.replay import ReplayRunner
from measurements.runners.streams import InOrder, stream_of
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.recording import Recording
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

H200 = device("h200")
PROBLEM = Matmul(m=16, n=16, k=16)


def candidate(name: str, index: int = 0, **changes) -> Candidate:
    kernel = dataclasses.replace(fault_kernel(name, PROBLEM), **changes)
    return Candidate(PROBLEM, Schedule("matmul", (("index", index),)), kernel)


@dataclasses.dataclass(frozen=True)
class Backend:
    """A runner, and for each possible status a function that makes candidates with this status."""

    runner: Runner
    pool: CompilePool
    provenance: Provenance
    kinds: dict[Status, Callable[[int], Candidate]]
    pids: Callable[[], tuple[int, ...]]


COMPILE_KINDS = {
    Status.OK: lambda i: candidate(f"time_{1000 + i}", i),
    Status.COMPILE_ERROR: lambda i: candidate(f"time_{i}", i, source=f"this is not a program {i}"),
    Status.OUT_OF_RESOURCES: lambda i: candidate(f"time_{i}", i, dynamic_shared_bytes=300_000),
}
GPU_KINDS = {
    Status.TIMEOUT: lambda i: candidate(f"hang_{i}", i),
    Status.CRASHED: lambda i: candidate(f"segfault_{i}", i),
    Status.WRONG_RESULT: lambda i: candidate(f"wrong_{i}", i),
    Status.LAUNCH_ERROR: lambda i: candidate(f"poison_{i}", i),
}


REPLAYED = [s for s in Status if s is not Status.UNRECORDED]


def recorded(status: Status, index: int) -> Candidate:
    kernel = fault_kernel("unused", PROBLEM)
    return Candidate(PROBLEM, Schedule("matmul", (("status", status.value), ("index", index))), kernel)


def recording() -> Recording:
    """Return a recording with trials of every recorded status, for the schedules that ``recorded`` makes."""
    trials = []
    for status in REPLAYED:
        for i in range(3001 if status is Status.OK else 40):
            seconds = 1e-9 * (1000 + i)
            ok = status is Status.OK
            measurement = Measurement(
                status,
                Provenance.MEASURED,
                "" if ok else f"it is {status}",
                timing=Timing(seconds, seconds, seconds, 5) if ok else None,
                resources=Resources(8, 0, 0, 0, 0, 0),
                compile_seconds=0.1,
            )
            trials.append(
                Trial(
                    problem_key=PROBLEM.key(),
                    schedule=recorded(status, i).schedule,
                    device="h200",
                    fingerprint=json.dumps({"device": "h200", "sm": "sm_90a", "sm_count": "132", "toolchain": "x"}),
                    template_version="v1",
                    space_version="s",
                    kernel_digest=None,
                    measurement=measurement,
                    toolchain="x",
                    driver="d",
                    autosched_version="0",
                    created=datetime(2026, 1, 2, tzinfo=UTC),
                    sampler="random",
                    seed=0,
                )
            )
    return Recording(tuple(trials))


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Backend]:
    """Open a backend with its own processes and files."""
    with CompilePool(CompileCache(folder / "cache"), workers=2) as pool:
        if name == "replay":
            replay = ReplayRunner(recording(), why="a test")
            replayed = {s: partial(recorded, s) for s in (*REPLAYED, Status.UNRECORDED)}
            yield Backend(replay, pool, Provenance.REPLAYED, replayed, lambda: ())
            return
        if name == "estimate":
            estimate = EstimateRunner(H200, pool, lambda c, *_: 1e-9 * int(c.kernel.name.split("_")[1]), why="a test")
            yield Backend(estimate, pool, Provenance.ESTIMATED, COMPILE_KINDS, lambda: pool.pids)
            estimate.close()
            return
        options = CudaOptions(limits=TimeLimits(candidate=0.5, retry_pauses=(0.1,)))
        gpus = (0, 1) if "two" in name else (0,)
        runner = CudaRunner(
            H200,
            pool,
            gpus=gpus,
            options=options,
            worker_module=MODULE,
            worker_path=[HERE],
            worker_env={FOLDER_VARIABLE: str(folder)},
        )
        kinds = COMPILE_KINDS | GPU_KINDS
        yield Backend(runner, pool, Provenance.MEASURED, kinds, lambda: (*pool.pids, *runner.pids))
        runner.close()


BACKENDS = ["estimate", "cuda", "cuda on two GPUs", "replay"]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request, tmp_path_factory):
    """Yield a backend that tests share, since they do not affect each other."""
    with opened(request.param, tmp_path_factory.mktemp("backend")) as runner:
        yield runner


@pytest.fixture(params=representative(BACKENDS, "estimate", "cuda on two GPUs", "replay"))
def own_backend(request, tmp_path):
    with opened(request.param, tmp_path) as runner:
        yield runner


class TestRunnerContract:
    def test_each_candidate_gets_exactly_one_result_of_its_own_status(self, backend):
        expected = [*backend.kinds, *[Status.OK] * 4]
        results = list(backend.runner.measure([backend.kinds[s](i) for i, s in enumerate(expected)]))
        assert sorted(i for i, _ in results) == list(range(len(expected)))
        assert {i: m.status for i, m in results} == dict(enumerate(expected))
        for i, measurement in results:
            assert measurement.provenance is backend.provenance
            assert "\n" not in measurement.reason
            if measurement.ok:
                assert measurement.timing.median == pytest.approx(1e-9 * (1000 + i))
                assert measurement.resources.registers > 0
                assert measurement.compile_seconds > 0

    def test_a_result_does_not_depend_on_the_order(self, backend):
        candidates = [make(i) for i, make in enumerate(backend.kinds.values())]
        forward = dict(backend.runner.measure(candidates))
        backward = dict(backend.runner.measure(candidates[::-1]))
        for i in range(len(candidates)):
            one, other = forward[i], backward[len(candidates) - 1 - i]
            assert (one.status, one.timing) == (other.status, other.timing)

    def test_no_candidates_give_no_results(self, backend):
        assert list(backend.runner.measure([])) == []

    def test_leaving_early_does_not_affect_the_next_call(self, backend):
        first = backend.runner.measure([backend.kinds[Status.OK](i) for i in range(20)])
        next(first)
        first.close()
        results = dict(backend.runner.measure([backend.kinds[Status.OK](i) for i in range(100, 104)]))
        assert [round(1e9 * results[i].timing.median) for i in range(4)] == [1100, 1101, 1102, 1103]

    def test_candidates_may_be_added_while_others_are_measured(self, backend):
        make, measured = backend.kinds[Status.OK], backend.provenance is Provenance.MEASURED
        with closing(stream_of(backend.runner)) as stream:
            assert list(stream) == []
            stream.add([make(0), make(1)])
            results, added = {}, 2
            for position, measurement in stream:
                assert position not in results
                assert stream.seconds > 0 or not measured
                results[position] = round(1e9 * measurement.timing.median) - 1000
                if added < 12:
                    stream.add([make(added)])
                    added += 1
            assert results == {i: i for i in range(12)}
            stream.add([make(12)])
            assert [position for position, _ in stream] == [12]

    def test_a_ready_result_is_returned_immediately(self, backend):
        with closing(stream_of(backend.runner)) as stream:
            assert not stream.ready()
            if not isinstance(backend.runner, Streaming):
                return
            stream.add([backend.kinds[Status.OK](0)])
            while not stream.ready():
                time.sleep(0.01)
            assert next(stream)[0] == 0 and not stream.ready()

    def test_a_closed_stream_disturbs_no_other(self, own_backend, tmp_path):
        with closing(stream_of(own_backend.runner)) as stream:
            stream.add([own_backend.kinds[Status.OK](i) for i in range(20)])
            next(stream)
        stream.close()
        assert list(stream) == []
        results = dict(own_backend.runner.measure([own_backend.kinds[Status.OK](i) for i in range(100, 104)]))
        assert [round(1e9 * results[i].timing.median) for i in range(4)] == [1100, 1101, 1102, 1103]
        # While a GPU's worker starts, all candidates are compiled.
        if own_backend.provenance is Provenance.ESTIMATED:
            assert len(list(tmp_path.rglob("*.cubin"))) < 20, "candidates that had not started were cancelled"

    def test_close_from_another_thread_ends_the_iteration(self, own_backend):
        def close():
            own_backend.pool.close()
            own_backend.runner.close()

        results = own_backend.runner.measure([own_backend.kinds[Status.OK](i) for i in range(3000)])
        assert next(results)[1].ok
        pids = own_backend.pids()
        closer = threading.Timer(0.1, close)
        closer.start()
        num_results = 0
        for _ in results:  # each iteration sleeps, so that even a replay is still running when the runner is closed
            time.sleep(1e-3)
            num_results += 1
        closer.join()
        assert num_results < 2999
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)

    def test_a_closed_runner_raises(self, own_backend):
        own_backend.runner.close()
        own_backend.runner.close()
        with pytest.raises(RuntimeError, match="closed"):
            next(own_backend.runner.measure([own_backend.kinds[Status.OK](0)]))

    def test_a_runner_describes_itself(self, backend):
        assert backend.runner.provenance is backend.provenance
        line = backend.runner.describe()
        assert line.startswith(f"backend {backend.runner.name}")
        assert "\n" not in line
        fingerprint = backend.runner.fingerprint()
        assert {"device", "sm", "sm_count", "toolchain"} <= set(fingerprint)
        assert all(isinstance(k, str) and isinstance(v, str) and v for k, v in fingerprint.items())


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1.0])
def test_an_invalid_estimate_is_rejected(tmp_path, seconds):
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        runner = EstimateRunner(H200, pool, lambda *_: seconds, model="tarot")
        with pytest.raises(ValueError, match="tarot predicted"):
            list(runner.measure([candidate("time_1")]))


def test_an_estimate_is_described_as_such_with_its_reason(tmp_path):
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        line = EstimateRunner(H200, pool, lambda *_: 1.0, why="no GPU answers").describe()
    assert line.startswith("backend estimate: no GPU answers; ")
    assert "ESTIMATED" in line


def test_an_estimate_that_fails_ends_its_stream(tmp_path):
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        stream = EstimateRunner(H200, pool, lambda *_: math.nan).stream()
        stream.add([candidate("time_1"), candidate("time_2")])
        with pytest.raises(ValueError, match="predicted nan s"):
            next(stream)
        assert list(stream) == []


def test_a_closed_estimate_yields_no_more_results(tmp_path):
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        runner = EstimateRunner(H200, pool, lambda *_: 1.0)
        stream = runner.stream()
        stream.add([candidate(f"time_{i}") for i in range(5)])
        next(stream)
        runner.close()
        assert list(stream) == []


def test_results_in_order_are_the_same_results(tmp_path):
    with CompilePool(CompileCache(tmp_path), workers=2) as pool:
        runner = EstimateRunner(H200, pool, lambda c, *_: 1e-9 * int(c.kernel.name.split("_")[1]))
        with closing(InOrder(runner.stream())) as stream:
            stream.add([candidate(f"time_{1000 + i}", i) for i in range(4)])
            assert next(stream)[0] == 0 and not stream.ready()
            stream.add([candidate("time_1004", 4)])
            assert [(i, round(1e9 * m.timing.median)) for i, m in stream] == [(i, 1000 + i) for i in range(1, 5)]
