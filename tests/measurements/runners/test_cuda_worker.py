"""The GPU worker's logic, tested with a fake cupy.

The fake keeps device memory in numpy, so that wrong numbers, changed inputs and writes beyond the end really happen.
Its clock advances only while kernels run, so that times are exact.
"""

import itertools
import re
import sys
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from worker_cupy import DeviceArray, FakeCupy, Function, Pointer

from measurements.runners.cuda import launch_timer
from measurements.runners.cuda import worker as cuda_worker
from measurements.runners.cuda.check_kernels import KERNEL, entry_for
from measurements.runners.cuda.device import device_row
from measurements.runners.cuda.device_arrays import ProblemData, Slots
from measurements.runners.cuda.launch_timer import LaunchTimer
from measurements.runners.cuda.nvml import GpuState
from measurements.runners.cuda.references import NOTHING_SENT, PARTS, DataSet, References
from measurements.runners.cuda.result_checks import ResultChecks
from measurements.runners.cuda.worker import GpuWorker
from measurements.trials.measurement import Status
from measurements.workers.messages import Message, digest_of
from search_spaces.hardware.dtypes import F16, SCALAR_DTYPES, U32
from search_spaces.launches.launch import Launch, operand_json
from search_spaces.launches.operand import Operand
from search_spaces.operators.matmul import Matmul

CUBIN = digest_of(b"a cubin")
BLOBS = {CUBIN: b"a cubin"}
OPEN = Message({"op": "open", "gpu": 0, "checks": CUBIN}, BLOBS)
PROBLEM = Matmul(m=17, n=9, k=20, out="f32")


@pytest.fixture(autouse=True)
def no_spin_up(monkeypatch):
    """Make the warm-up end after one read of the clock, so that it takes no time."""
    monkeypatch.setattr(launch_timer, "_SPIN_UP_SECONDS", 0.0)


@pytest.fixture(scope="module")
def arrays():
    references = References()
    yield references.computed(DataSet(PROBLEM, 0, 0), ["reference", "tolerance"])
    references.close()


def test_gpus_are_counted_without_opening_one():
    cupy = FakeCupy()
    cupy.cuda.Device = None
    assert GpuWorker(cupy).handle(Message({"op": "count"})) == {"gpus": 1}


@pytest.mark.parametrize("name", [b"NVIDIA H200", b"NVIDIA Something"])
def test_the_description_of_a_gpu_is_enough_for_its_device_row(name):
    cupy = FakeCupy()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    cupy.cuda.runtime.getDeviceProperties = lambda i: properties | {"name": name}
    description = GpuWorker(cupy).handle(Message({"op": "open", "gpu": 0, "checks": None}))
    row = device_row(description["name"], description["attributes"], description["memory_bytes"])
    assert (row.sm, row.sm_count) == (90, 2)


def opened(cupy, arrays, cold_bytes=0):
    worker = GpuWorker(cupy)
    worker.handle(OPEN)
    worker.handle(Message({"op": "health"}))
    ready = worker.handle(prepare(arrays, cold_bytes))
    assert "missing" not in ready and "status" not in ready
    return worker


def prepare(arrays, cold_bytes=0, problem=None):
    request = {
        "op": "prepare", "data": "key", "problem": problem or PROBLEM.to_json(), "seed": 0, "cold_bytes": cold_bytes,
        "operands": [operand_json(o) for o in PROBLEM.operands()], "arrays": arrays.digests,
    }  # fmt: skip
    return Message(request, arrays.blobs)


def kernel(name, workspace=False, launches=1):
    counters = (Operand("counters", "workspace", U32, (4,), zeroed=True),) if workspace else ()
    launch = Launch(
        entry=name,
        arguments=(*PROBLEM.operands(), *counters),
        grid=(1, 1, 1),
        block=(32, 1, 1),
        dynamic_shared_bytes=4096,
        launches=launches,
    )
    return {"cubin": CUBIN, "launch": launch.launch_json()}


RULE = {"target": 0.01, "min_repeats": 5, "max_repeats": 20, "max_seconds": 10.0}


def measure(worker, name, workspace=False, launch_limit=0.05, best=None, launches=1, launch=None, power=False):
    described = kernel(name, workspace, launches)
    described["launch"] |= launch or {}
    request = {
        "op": "measure", "data": "key", "kernel": described, "rule": RULE, "best": best,
        "launch_limit": launch_limit, "graph_below": 100e-6, "power": power,
    }  # fmt: skip
    return worker.handle(Message(request, BLOBS))


def test_a_right_kernel_is_measured_at_its_own_time(arrays):
    cupy = FakeCupy(time=2e-3)
    answer = measure(opened(cupy, arrays), "right")
    assert answer["status"] == Status.OK
    assert answer["seconds"] == pytest.approx([2e-3] * len(answer["seconds"]))
    assert len(answer["seconds"]) >= 5
    assert 0 < answer["error"] <= 1
    assert cupy.graphs == []
    assert "poisoned" not in answer


def raced(worker, name, incumbent="right", workspace=False, **changes):
    request = {
        "op": "measure", "data": "key", "kernel": kernel(name, workspace), "rule": RULE, "best": 3e-3,
        "launch_limit": 0.05, "graph_below": 100e-6, "power": False,
        "incumbent": {"kernel": kernel(incumbent), "seconds": 3e-3, "rule": {"out_factor": 1.15} | changes},
    }  # fmt: skip
    return worker.handle(Message(request, BLOBS))


def test_a_raced_kernel_has_the_incumbents_seconds_times_its_ratio(arrays):
    worker = opened(FakeCupy(time=2e-3), arrays)
    same = raced(worker, "right", max_rounds=3)["seconds"]
    assert same == pytest.approx([3e-3] * 6, rel=1e-6)  # two measurements in each of three rounds
    half = raced(worker, "right", incumbent="slow", max_rounds=3)["seconds"]
    assert half == pytest.approx([1.5e-3] * 6, rel=1e-6)


def test_a_raced_kernel_that_is_much_slower_is_timed_three_times(arrays):
    answer = raced(opened(FakeCupy(time=2e-3), arrays), "slow")
    assert answer["status"] == Status.OK
    assert answer["seconds"] == pytest.approx([6e-3] * 3, rel=1e-6)
    assert "1.15" in answer["reason"]


@pytest.mark.parametrize(
    ("name", "status"), [("wrong", "wrong_result"), ("sometimes", "wrong_result"), ("overruns", "wrong_result"),
                         ("overwrites", "wrong_result"), ("unclean", "wrong_result"), ("illegal", "launch_error")]
)  # fmt: skip
def test_a_race_reports_a_failing_challenger(arrays, name, status):
    answer = raced(opened(FakeCupy(time=2e-3), arrays), name, workspace=name == "unclean")
    assert answer["status"] == status
    assert answer["seconds"] == []


def test_a_race_leaves_the_incumbent_loaded_until_the_data_change(arrays):
    cupy = FakeCupy(time=2e-3)
    worker = opened(cupy, arrays)
    raced(worker, "right")
    loads = worker._loads
    raced(worker, "right")
    assert worker._loads == loads + 1
    worker.handle(prepare(arrays))
    raced(worker, "right")
    assert worker._loads == loads + 3


def test_every_type_of_an_output_has_a_check():
    assert all(f"CHECK({name}," in KERNEL.source and entry_for(name) == f"check_{name}" for name in SCALAR_DTYPES)


def test_kernels_beyond_the_cache_of_cupy_are_checked(arrays):
    worker = opened(FakeCupy(time=2e-3), arrays)
    assert {measure(worker, "right")["status"] for _ in range(130)} == {Status.OK}
    assert measure(worker, "wrong")["status"] == Status.WRONG_RESULT


def test_a_reduced_grid_is_recorded_in_the_trial(arrays, monkeypatch):
    monkeypatch.setattr("measurements.runners.launch._clusters_at_a_time", lambda cp, function, launch: 6)
    assert measure(opened(FakeCupy(time=2e-3), arrays), "right")["reason"] == ""
    shrinking = {"grid": [8, 1, 1], "grid_may_shrink": True}
    answer = measure(opened(FakeCupy(time=40e-3), arrays), "right", best=12e-3, launch=shrinking)
    assert answer["status"] == Status.OK
    assert answer["reason"] == (
        "launched 6 of 8 blocks: no more can run at the same time; "
        "repeated only 3 times: over 3 times slower than the best"
    )


def test_a_slow_kernel_is_measured_with_few_repeats_and_a_reason(arrays):
    answer = measure(opened(FakeCupy(time=40e-3), arrays), "right", best=12e-3)
    assert answer["status"] == Status.OK
    assert answer["seconds"] == pytest.approx([40e-3] * 3)
    assert answer["reason"] == "repeated only 3 times: over 3 times slower than the best"
    answer = measure(opened(FakeCupy(time=40e-3), arrays), "right", best=14e-3)
    assert len(answer["seconds"]) >= RULE["min_repeats"]
    assert answer["reason"] == ""


@pytest.fixture
def set_reasons(monkeypatch):
    """Return a function that fakes NVML's reasons for a low clock. Successive calls of NVML cycle through ``bits``."""

    def install(*bits, name="nvmlDeviceGetCurrentClocksEventReasons", **other_functions):
        reasons = itertools.cycle(bits)
        nvml = SimpleNamespace(
            nvmlInit=lambda: None,
            nvmlDeviceGetHandleByPciBusId=lambda bus: bus,
            nvmlSystemGetDriverVersion=lambda: "580",
            nvmlDeviceGetClockInfo=lambda handle, kind: 1980.0,
            NVML_CLOCK_SM=1,
            NVMLError=RuntimeError,
            **{name: lambda handle: next(reasons)},
            **other_functions,
        )
        monkeypatch.setitem(sys.modules, "pynvml", nvml)

    return install


@pytest.mark.parametrize("word", ["Event", "Throttle"])
def test_repeats_slowed_by_heat_are_excluded(arrays, set_reasons, word):
    set_reasons(
        0, 0x4, 0x24, name=f"nvmlDeviceGetCurrentClocks{word}Reasons"
    )  # 0x4: power limit, a legitimate effect on a kernel's speed; 0x20: heat
    answer = measure(opened(FakeCupy(time=20e-3), arrays), "right")
    assert answer["status"] == Status.OK
    left_out, all_of_them = re.fullmatch(
        r"(\d+) of (\d+) repeats were slowed by heat: excluded", answer["reason"]
    ).groups()
    assert int(all_of_them) - int(left_out) == len(answer["seconds"]) >= RULE["min_repeats"]
    assert answer["clock_mhz"] == 1980.0


@pytest.fixture
def short_power(monkeypatch):
    monkeypatch.setattr(launch_timer, "_POWER_SECONDS", 0.05)
    monkeypatch.setattr(launch_timer, "_SETTLE_SECONDS", 0.0)


def test_the_power_is_the_energy_that_the_gpu_counts_over_the_time(arrays, set_reasons, short_power):
    began = perf_counter()
    set_reasons(0, nvmlDeviceGetTotalEnergyConsumption=lambda handle: 1e3 * 250.0 * (perf_counter() - began))
    answer = measure(opened(FakeCupy(time=2e-3), arrays), "right", power=True)
    assert answer["status"] == Status.OK
    assert answer["watts"] == pytest.approx(250.0, rel=0.1)


def test_a_gpu_without_an_energy_counter_reports_its_power(arrays, set_reasons, short_power):
    def refused(handle):
        raise RuntimeError("not supported")

    set_reasons(0, nvmlDeviceGetTotalEnergyConsumption=refused, nvmlDeviceGetPowerUsage=lambda handle: 123_000)
    assert measure(opened(FakeCupy(time=2e-3), arrays), "right", power=True)["watts"] == pytest.approx(123.0)


def test_power_that_is_unrequested_or_unknown_is_absent(arrays, set_reasons, short_power):
    set_reasons(0)
    assert measure(opened(FakeCupy(time=2e-3), arrays), "right", power=True)["watts"] is None
    assert "watts" not in measure(opened(FakeCupy(time=2e-3), arrays), "right")


def test_the_power_limit_excludes_no_repeats(arrays, set_reasons):
    set_reasons(0x4)
    assert measure(opened(FakeCupy(time=20e-3), arrays), "right")["reason"] == ""


@pytest.fixture
def warm_up(monkeypatch):
    """Return a function that warms up while the clock has the given readings, and returns the seconds of the warm-up.

    The simulated time advances only in launches, by 1 ms each.
    """
    cupy = FakeCupy(time=1e-3)
    clocks = []
    monkeypatch.setattr(launch_timer, "_SPIN_UP_SECONDS", 0.1)

    def clock():
        """Return the current reading, which changes every 5.9 ms. The warm-up reads the clock every 5 ms."""
        return clocks[min(int((cupy.now - clocks_began[0]) / 5.9e-3), len(clocks) - 1)]

    clocks_began = [0.0]
    host = SimpleNamespace(perf_counter=lambda: cupy.now)
    timer = LaunchTimer(cupy, cupy.stream, GpuState(clock), host=host)

    def launch():
        cupy.now += cupy.time

    def warm(*readings):
        clocks[:] = readings
        began = clocks_began[0] = cupy.now
        assert timer._warmed_up(launch, 1.0) == pytest.approx(1e-3)
        return cupy.now - began

    return warm


@pytest.mark.parametrize("readings", [[345.0], [None], [345.0, 345.0, 1980.0]])
def test_the_first_time_warming_up_takes_as_long_as_a_clock_may_take_to_rise(warm_up, readings):
    assert 0.1 < warm_up(*readings) < 0.11
    assert warm_up(None) < 0.01, "an unknown clock is not waited for again"


def test_warming_up_continues_while_the_clock_rises_from_idle(warm_up):
    warm_up(1980.0)
    assert warm_up(1980.0) < 0.015, "two equal readings of the clock end the warm-up"
    low, higher = warm_up(1500.0, 1500.0), warm_up(1500.0, 1700.0, 1900.0, 1980.0, 1980.0)
    assert low < 0.015, "a clock that power limits does not rise, so warming up ends"
    assert higher > 1.5 * low


def test_warming_up_continues_while_the_clock_is_far_below_the_highest(warm_up):
    warm_up(1980.0)
    assert 0.02 < warm_up(345.0, 345.0, 345.0, 1980.0, 1980.0) < 0.04
    assert 0.1 < warm_up(345.0) < 0.11, "warming up has a time limit"


def test_a_permanently_rising_clock_does_not_extend_the_warm_up(warm_up):
    for _ in range(2):
        assert 0.1 < warm_up(*map(float, range(1, 1000))) < 0.11


@pytest.mark.parametrize("time", [5e-6, 2.2e-6, 1e-6])
def test_a_short_kernel_is_measured_through_a_graph_that_visits_every_copy_equally_often(arrays, time):
    """Otherwise a replay would begin with copies that the previous replay left in L2."""
    cupy = FakeCupy(time=time)
    worker = opened(cupy, arrays, cold_bytes=1_000_000)
    answer = measure(worker, "right")
    assert answer["seconds"] == pytest.approx([time] * len(answer["seconds"]))
    size = sum(o.bytes for o in PROBLEM.operands())
    copies = -(-1_000_000 // size)
    _, count = cupy.graphs  # the first graph only measures the duration of a launch
    assert count % copies == 0
    assert copies * time <= count * time <= 2 * max(2e-3, copies * time)
    assert len(set(cupy.launches)) == copies
    assert len(set(cupy.launches[-copies:])) == copies


@pytest.mark.parametrize("time", [5e-6, 2e-3])  # timed in a graph, and launch by launch
def test_a_kernel_of_two_launches_is_right_after_both_and_timed_as_a_whole(arrays, time):
    answer = measure(opened(FakeCupy(time=time), arrays), "two_phases", launches=2)
    assert answer["status"] == Status.OK
    assert answer["seconds"] == pytest.approx([2 * time] * len(answer["seconds"]))
    assert measure(opened(FakeCupy(time=time), arrays), "two_phases")["status"] == Status.WRONG_RESULT


def test_a_warm_cache_means_one_copy(arrays):
    cupy = FakeCupy(time=5e-6)
    measure(opened(cupy, arrays), "right")
    assert len(set(cupy.launches)) == 1


@pytest.mark.parametrize(
    ("name", "status", "reason", "poisoned"),
    [
        ("wrong", Status.WRONG_RESULT, "out[0, 3, 4] is", False),
        ("nothing", Status.WRONG_RESULT, "153 of 153 elements are wrong", False),
        ("partial", Status.WRONG_RESULT, "out[0, 16, 8] is nan", False),
        ("sometimes", Status.WRONG_RESULT, "after repeated launches: out[0, 0, 0] is 0", False),
        ("overwrites", Status.WRONG_RESULT, "bytes of input b were changed", True),
        ("overruns", Status.WRONG_RESULT, "1 bytes after out were written", True),
        ("unclean", Status.WRONG_RESULT, "workspace counters are not zero after the launch", True),
        ("illegal", Status.LAUNCH_ERROR, "illegal memory access", True),
        ("missing", Status.LAUNCH_ERROR, "named symbol not found", True),
        ("endless", Status.TIMEOUT, "a launch did not finish within 0.05 s", True),
        ("large", Status.OUT_OF_RESOURCES, "too many resources", False),
    ],
)
def test_failures_have_a_status_and_may_poison_the_process(arrays, name, status, reason, poisoned):
    answer = measure(opened(FakeCupy(), arrays), name, workspace=True)
    assert answer["status"] == status
    assert reason in answer["reason"]
    assert answer.get("poisoned", False) == poisoned
    assert answer["seconds"] == []


@pytest.mark.parametrize(
    ("actual", "expected", "allowed", "wrong"),
    [
        (np.inf, 65530.0, 30.0, 0),
        (65504.0, 65530.0, 30.0, 0),
        (np.inf, np.inf, np.inf, 0),
        (np.nan, np.nan, np.nan, 0),
        (np.inf, 65000.0, 30.0, 1),
        (2.0, 2.0001, np.inf, 0),  # equal after the reference is rounded to the output type
        (2.0, 2.5, np.inf, 1),
        (2.0, 2.5, np.nan, 1),
    ],
)
@pytest.mark.parametrize("other_wrong", [False, True])
def test_the_host_decides_on_elements_next_to_the_limits_of_their_type(actual, expected, allowed, wrong, other_wrong):
    cupy, operand = FakeCupy(), Operand("out", "output", F16, (3,))
    checks = ResultChecks(cupy, {entry_for("f16"): Function(cupy, entry_for("f16"))}, 1)
    slot = Slots(cupy, operand, 1)
    slot.array(0).host()[...] = np.float16([1.0, actual, 3.0 + other_wrong])
    reference, tolerance = ({"out": cupy.asarray(np.array(x))} for x in ([1.0, expected, 3.0], [0.1, allowed, 0.1]))
    worst, count, first = checks.error(slot, ProblemData(None, {}, reference, tolerance, {}, 1, 0))
    assert (count > 0) == bool(wrong or other_wrong) and (worst <= 1) == (count == 0)
    assert not count or first == (1 if wrong else 2)


def test_a_harmless_failure_does_not_affect_the_next_candidate(arrays):
    worker = opened(FakeCupy(), arrays)
    assert measure(worker, "wrong")["status"] == Status.WRONG_RESULT
    assert measure(worker, "right")["status"] == Status.OK


def test_too_little_memory_is_a_status(arrays):
    cupy = FakeCupy()
    worker = opened(cupy, arrays)
    cupy.free = 100
    answer = measure(worker, "right", workspace=True)
    assert (answer["status"], answer.get("poisoned", False)) == (Status.OUT_OF_RESOURCES, False)
    ready = worker.handle(prepare(arrays))
    assert ready["status"] == Status.OUT_OF_RESOURCES


def test_a_reference_that_the_gpu_cannot_compute_is_requested():
    worker = GpuWorker(FakeCupy())
    worker.handle(OPEN)
    answer = worker.handle(prepare(NOTHING_SENT))
    assert answer["missing"] == ["reference", "tolerance"]
    assert answer["why"]


STRANGER = {**PROBLEM.to_json(), "family": "nobody's", "operator": "nobody's"}


def test_a_problem_unknown_to_the_worker_is_sent_with_all_arrays():
    cupy, references = FakeCupy(time=2e-3), References()
    worker = GpuWorker(cupy)
    worker.handle(OPEN)
    answer = worker.handle(prepare(NOTHING_SENT, problem=STRANGER))
    assert answer["missing"] == list(PARTS)
    assert "nobody's" in answer["why"]
    sent = references.computed(DataSet(PROBLEM, 5, 0), answer["missing"])
    assert "missing" not in worker.handle(prepare(sent, problem=STRANGER))
    assert measure(worker, "right")["status"] == Status.OK
    assert measure(worker, "wrong")["status"] == Status.WRONG_RESULT
    own, copy = compare(worker, ["right"], ["copy"])
    assert (own["status"], copy["status"]) == (Status.OK, Status.LAUNCH_ERROR)
    assert copy["reason"] == "the GPU worker does not know the operator of this problem"


def test_outputs_are_returned_as_bytes(arrays):
    worker = opened(FakeCupy(), arrays)
    request = {"op": "outputs", "data": "key", "kernel": kernel("right"), "launch_limit": 1.0}
    answer = worker.handle(Message(request, BLOBS))
    assert answer["status"] == Status.OK
    inputs = PROBLEM.random_inputs(0)
    actual = np.frombuffer(answer.blobs[answer["outputs"]["out"]], np.float32).reshape(1, 17, 9)
    np.testing.assert_array_equal(actual, inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32))


def test_a_kernel_with_an_unknown_operand_is_rejected(arrays):
    described = kernel("right")
    described["launch"]["arguments"][0]["name"] = "another"
    request = {"op": "outputs", "data": "key", "kernel": described, "launch_limit": 1.0}
    answer = opened(FakeCupy(), arrays).handle(Message(request, BLOBS))
    assert (answer["status"], answer["reason"]) == (
        Status.LAUNCH_ERROR,
        "the kernel has an operand another that its problem does not have",
    )


def test_memory_of_a_reference_is_freed(monkeypatch):
    """The pool of cupy must release memory, since torch and kernels with local memory need it."""
    cupy, zeros = FakeCupy(), DeviceArray((1, 17, 9), np.float64, Pointer(np.zeros(17 * 9 * 8, np.uint8)))

    def computed(problem, inputs):
        cupy.kept_by_pool.append("temporaries")
        return {"out": zeros}

    cupy.ascontiguousarray = lambda array: array
    monkeypatch.setattr(Matmul, "reference", computed)
    monkeypatch.setattr(Matmul, "tolerance", computed)
    worker = GpuWorker(cupy)
    worker.handle(OPEN)
    assert "missing" not in worker.handle(prepare(NOTHING_SENT))
    assert cupy.kept_by_pool == []


def test_an_unhealthy_gpu_is_noticed(arrays, monkeypatch):
    worker = opened(FakeCupy(), arrays)
    monkeypatch.setattr(Function, "check_bytes", lambda *_: None)
    with pytest.raises(RuntimeError, match="known-good kernel did not report the differences"):
        worker.handle(Message({"op": "health"}))


def compare(worker, names, baselines, workspace=False):
    request = {
        "op": "compare", "data": "key", "kernels": [kernel(name, workspace) for name in names], "rounds": 7,
        "baselines": baselines, "launch_limit": 0.05, "graph_below": 100e-6,
    }  # fmt: skip
    return worker.handle(Message(request, BLOBS))["entrants"]


def test_a_comparison_times_valid_entrants_and_reports_a_missing_triton(arrays, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    worker = opened(FakeCupy(time=3e-4), arrays)
    right, wrong, again, triton = compare(worker, ["right", "wrong", "right"], ["triton"])
    # The simulated clock accumulates rounding errors, so equal launches may differ slightly.
    assert right["seconds"] == pytest.approx([3e-4] * 7)
    assert again["seconds"] == pytest.approx([3e-4] * 7)
    assert (wrong["status"], wrong["seconds"]) == (Status.WRONG_RESULT, [])
    assert triton["reason"].startswith("triton cannot be called: ModuleNotFoundError")


def test_a_library_that_spoils_a_capture_is_timed_without_a_graph(arrays, monkeypatch):
    monkeypatch.setattr(cuda_worker, "baseline_call", fake_library)
    for entrant in compare(opened(FakeCupy(time=5e-6), arrays), ["right"], ["uncapturable"]):
        assert entrant["seconds"] == pytest.approx([5e-6] * 7), entrant


def test_compared_entrants_are_in_graphs_even_if_queueing_is_slow(arrays, monkeypatch):
    """Queueing a library's kernels may take longer than executing them. Graphs exclude the queueing time."""
    monkeypatch.setattr(cuda_worker, "baseline_call", fake_library)
    for time, graphs in ((3e-4, 2), (3e-3, 0)):  # one graph per entrant; kernels over 100 us need no calibration
        cupy = FakeCupy(time=time)
        for entrant in compare(opened(cupy, arrays), ["right"], ["right"]):
            assert entrant["seconds"] == pytest.approx([time] * 7)
        assert len(cupy.graphs) == graphs


def test_objects_of_a_graph_live_as_long_as_its_rounds(arrays, monkeypatch):
    monkeypatch.setattr(cuda_worker, "baseline_call", fake_library)
    first, again, baseline = compare(opened(FakeCupy(time=5e-6), arrays), ["right", "right"], ["right"], workspace=True)
    for entrant in (first, again, baseline):
        assert entrant["seconds"] == pytest.approx([5e-6] * 7)


def fake_library(name, cupy, stream, problem, copies, cold_bytes):
    """Return a fake baseline. Its name selects its behaviour."""
    if name == "missing":
        return "it is not here"
    function = Function(cupy, name)

    def call(copy):
        operands = copies[copy]
        function((1, 1, 1), (32, 1, 1), (operands["a"], operands["b"], operands["out"]))
        if name == "uncapturable" and cupy.stream.captured is not None:
            cupy.stream.spoiled = True
        if name == "roughly":
            operands["out"].host()[...] *= np.float32(1 + 1e-4)

    call(0)
    return call


def test_a_baseline_may_round_in_its_own_way_but_must_compute_the_same(arrays, monkeypatch):
    monkeypatch.setattr(cuda_worker, "baseline_call", fake_library)
    names = ["right", "roughly", "nothing", "wrong", "missing"]
    own, *baselines = compare(opened(FakeCupy(time=3e-4), arrays), ["right"], names)
    for entrant in (own, *baselines[:2]):
        assert entrant["seconds"] == pytest.approx([3e-4] * 7)
    assert baselines[0]["error"] <= 1 < baselines[1]["error"]
    for entrant, name in zip(baselines[2:4], names[2:4], strict=True):
        assert (entrant["status"], entrant["seconds"]) == (Status.LAUNCH_ERROR, [])
        assert entrant["reason"].startswith(f"{name} has different results: the largest error is")
    assert baselines[4]["reason"] == "it is not here"


def test_an_endless_baseline_times_out_alone(arrays, monkeypatch):
    monkeypatch.setattr(cuda_worker, "baseline_call", fake_library)
    answer = compare(opened(FakeCupy(time=3e-4), arrays), ["right"], ["endless", "right"])
    assert [entrant["status"] for entrant in answer] == [Status.OK, Status.TIMEOUT]
    assert answer[0]["seconds"] == []
