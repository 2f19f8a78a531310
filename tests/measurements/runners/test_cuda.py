"""The cuda runner gives one result per candidate and leaves no process, even if workers hang, crash or lie."""

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cases import spread
from device_attributes import ATTRIBUTES
from faults import FOLDER_VARIABLE, HERE, MODULE, WATTS, fault_kernel

from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.base import Candidate, RunnerStopped
from measurements.runners.cuda.device import cuda_available, cuda_device, device_row
from measurements.runners.cuda.references import PARTS, DataSet, References, array_of
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.runners.estimate import EstimateRunner
from measurements.trials.measurement import Status
from measurements.trials.policy import Policy
from measurements.trials.runner_info import RunnerInfo
from measurements.workers.messages import digest_of
from measurements.workers.worker import Worker
from search_spaces.hardware.architectures import architecture
from search_spaces.hardware.devices import UnknownDevice, all_devices, device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

H200 = device("h200")
PROBLEM = Matmul(m=16, n=16, k=16)

INSTANT_COMPILER = """
import os, re, time
from measurements.workers.messages import Message
from measurements.workers.worker import serve

def handle(request):
    while "_late(" in request["source"] and not os.path.exists(os.path.join(os.path.dirname(__file__), "go on")):
        time.sleep(0.01)
    log = ""
    for entry in re.findall(r"__global__ void (\\w+)\\(", request["source"]):
        log += (f"ptxas info    : Compiling entry function '{entry}' for 'sm_90a'\\n"
                f"ptxas info    : Function properties for {entry}\\n"
                "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\\n"
                "ptxas info    : Used 8 registers, used 0 barriers\\n")
    answer = Message({"entry": request["entry"], "log": log, "seconds": 0.001})
    answer["cubin"] = answer.attach(request["source"].encode())
    return answer

serve(handle)
"""


def candidate(name: str, problem=PROBLEM) -> Candidate:
    return Candidate(problem, Schedule("matmul", (("name", name),)), fault_kernel(name, problem))


@pytest.fixture
def pool(tmp_path):
    (tmp_path / "instant_compiler.py").write_text(INSTANT_COMPILER)
    with CompilePool(
        CompileCache(tmp_path / "cache"), workers=1, worker_module="instant_compiler", python_path=[str(tmp_path)]
    ) as p:
        yield p


@pytest.fixture
def make_runner(tmp_path, pool):
    runners = []

    def make(gpus=(0,), seconds=0.5, **options) -> CudaRunner:
        limits = TimeLimits(candidate=seconds, health=5.0, retry_pauses=(0.05, 0.05))
        runner = CudaRunner(
            H200,
            pool,
            gpus=gpus,
            options=CudaOptions(limits=limits, **options),
            worker_module=MODULE,
            worker_path=[HERE],
            worker_env={FOLDER_VARIABLE: str(tmp_path)},
        )
        runners.append(runner)
        return runner

    yield make
    for runner in runners:
        runner.close()


FATES = {
    "time_1000": Status.OK,
    "slow_30_1000": Status.OK,
    "shout_1000": Status.OK,
    "once_1000": Status.OK,
    "wrong": Status.WRONG_RESULT,
    "error": Status.LAUNCH_ERROR,
    "poison": Status.LAUNCH_ERROR,
    "hang": Status.TIMEOUT,
    "spin": Status.TIMEOUT,
    "segfault": Status.CRASHED,
    "abort": Status.CRASHED,
    "exit": Status.CRASHED,
    "memory": Status.CRASHED,
    "garbage": Status.CRASHED,
    "half": Status.CRASHED,
    "stranger": Status.CRASHED,
    "mute": Status.CRASHED,
    "parent": Status.CRASHED,
    "paint": Status.LAUNCH_ERROR,
    "nonsense": Status.CRASHED,
    "negative": Status.CRASHED,
    "raise": Status.CRASHED,
}


@pytest.mark.parametrize("power", [True, False])
def test_power_is_measured_on_request(make_runner, power):
    ((_, measurement),) = make_runner(power=power).measure([candidate("time_1000_power")])
    assert measurement.ok and measurement.watts == (WATTS if power else None)


def test_every_failure_has_its_status_and_does_not_affect_others(make_runner, tmp_path):
    runner = make_runner(seconds=1.0)
    names = [name for fate in FATES for name in (f"{fate}_a", "time_5000_" + fate.replace("_", ""))]
    results = dict(runner.measure([candidate(n) for n in names]))
    assert len(results) == len(names)
    for i, name in enumerate(names):
        measurement = results[i]
        assert measurement.status is (FATES[name.removesuffix("_a")] if i % 2 == 0 else Status.OK), name
        if not measurement.ok:
            assert measurement.reason
            assert measurement.reason.isprintable(), "control characters are escaped, in one line"
    left = Path(f"/proc/{(tmp_path / 'child').read_text()}/cmdline")
    assert not left.exists() or not left.read_bytes(), "at most a zombie that init has yet to collect"


def test_bad_candidates_lose_no_results_and_leave_no_processes(make_runner, nightly):
    rng, many = random.Random(5), 500 if nightly else 80
    bad = ["hang", "segfault", "exit", "poison", "wrong", "garbage", "negative", "raise"]
    names = [f"{rng.choice(bad)}_{i}" if i % 5 == 0 else f"time_{rng.randrange(2000, 9000)}_{i}" for i in range(many)]
    names[77] = "time_1999_77"
    runner = make_runner(gpus=(0, 1), seconds=0.2)
    results, pids = [], set()
    for result in runner.measure([candidate(n) for n in names]):
        results.append(result)
        pids.update(runner.pids)
    assert sorted(i for i, _ in results) == list(range(many))
    for i, measurement in results:
        assert measurement.status is FATES.get(names[i].split("_")[0], Status.OK), names[i]
    best = min((m.timing.median, i) for i, m in results if m.ok)
    assert best == (pytest.approx(1.999e-6), 77)
    runner.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_worker_killed_from_outside_costs_no_candidate(make_runner):
    runner = make_runner(seconds=5.0)
    rng = random.Random(6)
    results = {}
    for position, measurement in runner.measure([candidate(f"slow_20_1000_{i}") for i in range(60)]):
        assert position not in results
        results[position] = measurement
        if len(results) % 8 == 0:
            time.sleep(rng.uniform(0.0, 0.015))  # kill the worker at a random moment of the next measurement
            for pid in runner.pids:
                os.kill(pid, signal.SIGKILL)
    assert len(results) == 60
    assert all(m.ok for m in results.values())
    assert runner.restarts >= 5


def test_a_lost_gpu_stops_the_run_and_keeps_measurements(make_runner):
    runner = make_runner()
    results = runner.measure([candidate("time_1000"), candidate("unplug"), candidate("time_2000")])
    assert next(results)[0] == 0
    with pytest.raises(RunnerStopped, match=r"GPU 0 does not respond after 3 attempts: .* no GPU is there") as caught:
        list(results)
    assert "\n" not in str(caught.value)


def test_the_same_program_is_measured_once(make_runner, tmp_path):
    # All kernels have the same name and source, and therefore the same cubin, whatever their schedules are.
    results = list(make_runner().measure([candidate("counted_1000")] * 20))
    assert len(results) == 20
    assert all(m.ok for _, m in results)
    assert (tmp_path / "counted_1000").read_text() == "x"


def test_the_gpu_measures_while_a_compiler_compiles(make_runner, tmp_path):
    results = make_runner().measure([candidate("time_1000"), candidate("time_1000_compiled_late")])
    assert next(results)[0] == 0  # the second candidate is still being compiled
    (tmp_path / "go on").touch()
    assert next(results)[0] == 1


def test_only_much_slower_candidates_are_measured_with_fewer_repeats(make_runner):
    other = Matmul(m=8, n=8, k=8)
    names = [("time_2000", PROBLEM), ("time_1000", PROBLEM), ("time_9000", other), ("time_2900", PROBLEM)]
    names.append(("time_9000", PROBLEM))
    measured = dict(make_runner().measure([candidate(f"{n}_{i}", p) for i, (n, p) in enumerate(names)]))
    assert [measured[i].timing.count for i in range(5)] == [5, 5, 5, 5, 3]
    assert measured[4].timing.median == 9e-6
    assert [measured[i].reason for i in range(5)] == ["", "", "", "", "repeated only 3 times"]


def test_problems_may_be_mixed(make_runner):
    other = Matmul(m=8, n=8, k=8, out="f32", epilogue="bias")
    runner = make_runner()
    mixed = [candidate(f"time_1000_{i}", PROBLEM if i % 2 else other) for i in range(8)]
    assert all(m.ok for _, m in runner.measure(mixed))
    assert runner.restarts == 0


def test_a_comparison_has_an_entrant_per_candidate_and_times_of_valid_ones(make_runner):
    runner = make_runner()
    entrants = runner.compare(
        [candidate("time_1000"), candidate("wrong"), candidate("time_2000")], rounds=4, library=False
    )
    assert [a.status for a in entrants] == [Status.OK, Status.WRONG_RESULT, Status.OK]
    assert entrants[0].seconds == (pytest.approx(1e-6),) * 4
    assert entrants[1].seconds == ()
    with pytest.raises(ValueError, match="comparison"):
        runner.compare([])


def test_a_crash_in_a_comparison_only_fails_its_entrants(make_runner):
    runner = make_runner()
    entrants = runner.compare([candidate("time_1000"), candidate("segfault")], library=False)
    assert {a.status for a in entrants} == {Status.CRASHED}
    assert dict(runner.measure([candidate("time_1000")]))[0].ok


NO_ENTRANTS = {
    "no list": 5,
    "no object": [[1]],
    "no status": [{"seconds": [1e-6] * 4}],
    "unknown status": [{"status": "splendid", "seconds": [1e-6] * 4}],
    "no times": [{"status": "ok"}],
    "negative": [{"status": "ok", "seconds": [-1e-6] * 4}],
    "text": [{"status": "ok", "seconds": ["fast"] * 4}],
    "endless": [{"status": "ok", "seconds": [10**400] * 4}],
    "rounds": [{"status": "ok", "seconds": [1e-6] * 4}, {"status": "ok", "seconds": [1e-6] * 3}],
    "error": [{"status": "ok", "seconds": [1e-6] * 4, "error": "none"}],
    "no reason": [{"status": "launch_error", "seconds": []}],
    "a number for a reason": [{"status": "launch_error", "seconds": [], "reason": 5}],
}


@pytest.mark.parametrize("entrants", spread(NO_ENTRANTS.values(), 5), ids=NO_ENTRANTS)
def test_invalid_entrants_fail_the_comparison(make_runner, monkeypatch, entrants):
    runner = make_runner()
    ask = Worker.request

    def lie(worker, payload, timeout, blobs):
        answer = ask(worker, payload, timeout, blobs)
        return {**answer, "entrants": entrants} if payload.get("op") == "compare" else answer

    monkeypatch.setattr(Worker, "request", lie)
    comparison = runner.compare([candidate("time_1000"), candidate("time_2000")], rounds=4, library=False)
    assert {a.status for a in comparison} == {Status.CRASHED}
    assert all("is malformed" in a.reason for a in comparison)


@pytest.mark.parametrize("gpus", [(), (0, 0)])
def test_gpus_must_be_named_once(pool, gpus):
    with pytest.raises(ValueError, match="gpus"):
        CudaRunner(H200, pool, gpus=gpus)


def test_references_are_computed_once_and_only_on_request():
    references = References()
    data = DataSet(PROBLEM, 3, 0)
    assert references.known(data).digests == {}
    sent = references.computed(data, ["reference"])
    assert references.computed(data, ["reference"]) is references.known(data) is sent
    assert sent.digests.keys() == {"reference"}
    every = references.computed(data, PARTS)
    assert sorted(every.digests) == sorted(PARTS)
    operands = {o.name: o for o in PROBLEM.operands()}
    inputs = PROBLEM.random_inputs(3)
    expected = {"inputs": inputs, "reference": PROBLEM.reference(inputs), "tolerance": PROBLEM.tolerance(inputs)}
    for part, arrays in expected.items():
        for name, array in arrays.items():
            content = every.blobs[every.digests[part][name]]
            loaded = array_of(part, operands[name], bytes(content))
            assert np.array_equal(loaded, np.broadcast_to(array, operands[name].shape))
            assert digest_of(content) == every.digests[part][name]
    references.computed(DataSet(PROBLEM, 4, 0), ["tolerance"])
    assert references.known(data).blobs == {}
    references.close()


def test_a_partition_of_a_known_product_has_its_own_size():
    assert device_row("NVIDIA H200", ATTRIBUTES, 150 * 10**9) == H200
    slice_of_it = ATTRIBUTES | {"MultiProcessorCount": 60, "L2CacheSize": 30 * 2**20}
    part = device_row("NVIDIA H200", slice_of_it, 70 * 10**9)
    assert (part.sm_count, part.l2_bytes, part.memory_bytes) == (60, 30 * 2**20, 70 * 10**9)
    assert part.dram_bandwidth == pytest.approx(H200.dram_bandwidth * 70e9 / H200.memory_bytes)
    assert part.derived
    assert device_row("NVIDIA H200 MIG 3g.71gb", slice_of_it, 70 * 10**9) == part


def driver_attributes(cc, sms, l2_mib, clock_khz=1700000, memory_khz=7000000, bus=256, **other_attributes):
    """Return the attributes that the driver reports for a GPU of this compute capability."""
    its = architecture(cc)
    limits = {
        "MaxBlocksPerMultiprocessor": its.blocks,
        "MaxSharedMemoryPerBlockOptin": its.shared_per_block,
        "MaxSharedMemoryPerMultiprocessor": its.shared_per_sm,
        "MaxThreadsPerMultiProcessor": its.threads,
    }
    counts = {"MultiProcessorCount": sms, "L2CacheSize": int(l2_mib * 2**20), "ClockRate": clock_khz}
    memory = {"MemoryClockRate": memory_khz, "GlobalMemoryBusWidth": bus}
    capability = {"ComputeCapabilityMajor": cc // 10, "ComputeCapabilityMinor": cc % 10}
    return ATTRIBUTES | limits | counts | memory | capability | other_attributes


GIB = 2**30


@pytest.mark.parametrize("row", all_devices(), ids=lambda row: row.name)
def test_driver_attributes_identify_the_device_row(row):
    attributes = driver_attributes(row.sm, row.sm_count, row.l2_bytes / 2**20)
    for name in row.driver_names:
        assert device_row(name, attributes, int(0.98 * row.memory_bytes)) is row


def test_products_of_one_name_are_distinguished_by_size():
    attributes = driver_attributes(86, 70, 6, memory_khz=9501000, bus=384)
    larger = device_row("NVIDIA GeForce RTX 3080", attributes, 12 * GIB)
    assert larger.derived and larger.sm_count == 70
    assert larger.dram_bandwidth == pytest.approx(912e9, rel=0.01)
    smaller = device_row("NVIDIA GeForce RTX 3060", driver_attributes(86, 28, 3, memory_khz=7501000, bus=128), 8 * GIB)
    assert smaller.derived and smaller.dram_bandwidth == pytest.approx(240e9, rel=0.01)
    assert device_row("Orin", driver_attributes(87, 8, 2), 7620 * 2**20).name == "orin_nano_8_super"


def test_an_unknown_product_has_the_rates_of_its_class():
    geforce = device_row("NVIDIA GeForce RTX 4070 Unknown", driver_attributes(89, 58, 48), 12 * GIB)
    assert geforce.tensor_rate("f16") == device("rtx4090").tensor_rate("f16") == 512
    professional = device_row("NVIDIA RTX A5500", driver_attributes(86, 80, 6), 24 * GIB)
    assert professional.tensor_rate("f16") == device("a10").tensor_rate("f16") == 1024
    turing = device_row("Quadro RTX 5000", driver_attributes(75, 48, 4), 16 * GIB)
    assert (turing.tensor_rate("f16"), turing.reserved_shared_per_block) == (1024, 0)
    assert device_row("GeForce GTX 1660", driver_attributes(75, 22, 1.5), 6 * GIB).arch == "sm_75"


def test_memory_that_is_shared_with_the_cpu_has_the_bandwidth_of_the_row():
    other = device_row(
        "NVIDIA GB10 Lite", driver_attributes(121, 40, 24, memory_khz=8533000, bus=256, Integrated=1), 64 * GIB
    )
    assert other.dram_bandwidth == 273e9
    silent = device_row(
        "NVIDIA Thor X", driver_attributes(110, 16, 32, clock_khz=1049000, memory_khz=0, bus=0), 64 * GIB
    )
    assert (silent.dram_bandwidth, silent.clock_hz) == (273e9, 1.575e9)
    assert "bandwidth" in silent.note


def test_a_later_minor_version_runs_code_of_the_nearest_known_one():
    row = device_row("NVIDIA Rubin", driver_attributes(107, 200, 128), 288 * GIB)
    assert (row.arch, row.derived) == ("sm_103", True)
    assert row.has("tma") and not row.has("tcgen05")


def test_runners_and_trials_report_a_derived_row(pool):
    row = device_row("NVIDIA GeForce RTX 4070 Unknown", driver_attributes(89, 58, 48), 12 * GIB)
    cuda, estimate = CudaRunner(row, pool), EstimateRunner(row, pool, lambda *_: 1.0)
    assert cuda.describe().endswith(f"; its row is {row.note}") and row.note in estimate.describe()
    assert RunnerInfo.of(json.dumps(estimate.fingerprint())).derived == row.note
    cuda.close()


def test_an_unknown_product_keeps_its_own_name_and_numbers():
    row = device_row("NVIDIA H200 Nouveau", ATTRIBUTES, 149 * 10**9)
    assert row.name == "h200_nouveau"
    assert row.derived
    assert row.note == "derived from the driver's figures and sm_90; unconfirmed: rates"
    assert row.memory_bytes == 149 * 10**9
    assert row.clock_hz == 1.785e9
    assert row.dram_bandwidth == pytest.approx(4.917e12, rel=1e-3)
    assert row.tensor_flops_per_cycle == H200.tensor_flops_per_cycle
    with pytest.raises(UnknownDevice, match=r"NVIDIA V100: compute capability 7\.0 is older than Turing"):
        device_row("NVIDIA V100", ATTRIBUTES | {"ComputeCapabilityMajor": 7}, 16 * 2**30)


def test_the_availability_of_a_gpu_is_reported_in_one_line():
    here, line = cuda_available()
    assert line
    assert "\n" not in line
    if not here:
        with pytest.raises(ValueError, match=r".") as caught:
            cuda_device()
        assert str(caught.value) == line


def test_a_locked_clock_is_verified(make_runner):
    near, far = (make_runner(policy=Policy(clock_mhz=mhz)) for mhz in (1515, 1410))  # the worker's clock is 1500 MHz
    (result,) = near.measure([candidate("time_1000")])
    assert result[1].ok and near.fingerprint()["clocks"] == "1515 MHz"
    with pytest.raises(RunnerStopped, match=r"runs at 1500 MHz, not at 1410: lock it \(nvidia-smi -lgc 1410\)"):
        list(far.measure([candidate("time_1000")]))
    with pytest.raises(RunnerStopped, match="runs at 1500 MHz"):
        make_runner(policy=Policy(clock_mhz=1410)).compare([candidate("time_1000")], rounds=1, library=False)


def test_eager_launches_are_in_no_graph(tmp_path, pool):
    (tmp_path / "telling_worker.py").write_text(
        "import os\nfrom faults import FaultyGpu\nfrom measurements.workers.worker import serve\n"
        "class Telling(FaultyGpu):\n"
        "    def handle(self, request):\n"
        "        if 'graph_below' in request:\n"
        "            with open(os.environ['TOLD'], 'a') as told:\n"
        "                print(request['op'], request['graph_below'], file=told)\n"
        "        return super().handle(request)\n"
        "if __name__ == '__main__':\n    serve(Telling().handle)\n"
    )
    logged = []
    for launch in ("graph", "eager"):
        file = tmp_path / launch
        runner = CudaRunner(
            H200, pool, options=CudaOptions(policy=Policy(launch=launch)), worker_module="telling_worker",
            worker_env={"TOLD": str(file), FOLDER_VARIABLE: str(tmp_path)}, worker_path=[HERE, str(tmp_path)],
        )  # fmt: skip
        list(runner.measure([candidate("time_1000")]))
        runner.compare([candidate("time_1000")], rounds=1, library=False)
        assert runner.fingerprint()["launch"] == launch
        assert ("launched one by one" in runner.describe()) == (launch == "eager")
        runner.close()
        logged.append(file.read_text().split())
    assert logged == [["measure", "0.001", "compare", "0.001"], ["measure", "0.0", "compare", "0.0"]]
