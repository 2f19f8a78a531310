"""The compiler's log is parsed, and the pool of compilers gives one result per kernel."""

import contextlib
import dataclasses
import importlib.metadata
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from compiling import compile_many
from kernels import generate

import measurements.compiler.pool
from measurements.compiler.nvrtc import WHEEL, loaded_version, toolchain_version
from measurements.compiler.pool import (
    CompileCache,
    Compiled,
    CompileFailure,
    CompilePool,
    NvrtcMissing,
    error_reason,
    over_limits,
    parse_resources,
)
from measurements.trials.measurement import Resources, Status
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.operators.matmul import Matmul

ROOT = str(Path(measurements.compiler.pool.__file__).resolve().parents[2])

try:
    toolchain_version()
except NvrtcMissing as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

LOG_13_5 = """\
ptxas info    : 4 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas info    : Function properties for other
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 1.573 ms
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     3504 bytes stack frame, 5388 bytes spill stores, 7108 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 3600 bytes cumulative stack size, 4096 bytes smem, 368 bytes cmem[0]
ptxas info    : Compile time = 383.530 ms
ptxas info    : Function properties for _Z1fi
ptxas         .     16 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads"""
LOG_12_4 = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 536 bytes cmem[0]"""


def test_resources_of_the_entry_function_are_reported():
    assert parse_resources(LOG_13_5, "k") == Resources(32, 5388, 7108, 3600, 4096, 0)
    assert parse_resources(LOG_13_5, "other") == Resources(8, 0, 0, 0, 0, 0)
    assert parse_resources(LOG_12_4, "k") == Resources(255, 0, 0, 0, 0, 0)


def test_a_log_without_resources_gives_none():
    assert parse_resources(LOG_13_5, "_Z1fi") is None
    assert parse_resources("", "k") is None
    assert parse_resources(LOG_12_4[: LOG_12_4.index("Used")], "k") is None


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "kernel.cu(2): warning #177-D: declared but never referenced\nautosched/a.cuh(7): error: static "
            'assertion failed with "rows"\n   text\n1 error detected',
            'autosched/a.cuh:7: static assertion failed with "rows"',
        ),
        (
            'a.cu(1): catastrophic error: could not open source file "foo.h"',
            'a.cu:1: could not open source file "foo.h"',
        ),
        ("kernel.cu(3): error #20: identifier is undefined", "kernel.cu:3: identifier is undefined"),
        (
            "ptxas application ptx input, line 23; error   : Unknown modifier '.bar'\nptxas fatal",
            "ptx:23: Unknown modifier '.bar'",
        ),
        (
            " ptxas error   : Entry function 'k' uses too much shared data",
            "ptxas: Entry function 'k' uses too much shared data",
        ),
        (
            "nvrtc: error: invalid value for --gpu-architecture (-arch)",
            "nvrtc: invalid value for --gpu-architecture (-arch)",
        ),
        ("something else\nmore", "something else"),
        ("\n", "the compiler gave no message"),
    ],
)
def test_the_reason_is_the_first_error_on_one_line(log, reason):
    assert error_reason(log).startswith(reason)
    assert "\n" not in error_reason(log)


@pytest.mark.parametrize("name", ["__shfl", "__shfl_down", "__ballot", "__any"])
def test_an_undefined_warp_function_suggests_its_sync_variant(name: str) -> None:
    log = f'k.cu(3): error: identifier "{name}" is undefined'
    assert error_reason(log).startswith("k.cu:3: ") and f" {name}_sync" in error_reason(log)
    assert "_sync" not in error_reason('k.cu(3): error: identifier "__shfl_own" is undefined')


def kernel(name: str, body: str = "x[threadIdx.x] = 1.0f;", **changes) -> GeneratedKernel:
    source = f'extern "C" __global__ void __launch_bounds__(256) {name}(float* x) {{ {body} }}\n'
    return GeneratedKernel(
        **{"entry": name, "source": source, "arguments": (), "grid": (1, 1, 1), "block": (256, 1, 1)} | changes
    )


ENDLESS = """
template <int Depth, long Path> struct Tree {
  static constexpr long value = Tree<Depth - 1, 2 * Path>::value + Tree<Depth - 1, 2 * Path + 1>::value;
};
template <long Path> struct Tree<0, Path> { static constexpr long value = Path % 3; };
extern "C" __global__ void endless(long* x) { *x = Tree<60, 1>::value; }
"""


@pytest.fixture
def pool(tmp_path):
    with CompilePool(CompileCache(tmp_path / "cache"), workers=2) as p:
        yield p


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_a_kernel_compiles_for_each_arch_and_is_cached(pool, arch):
    k = kernel("k", "__shared__ float s[64]; s[threadIdx.x % 64] = x[0]; __syncthreads(); x[1] = s[5];",
               dynamic_shared_bytes=4096)  # fmt: skip
    first = pool.compile(k, arch)
    assert isinstance(first, Compiled)
    assert first.path.read_bytes()[:4] == b"\x7fELF"
    assert 4 <= first.resources.registers <= 64
    assert first.resources.static_shared_bytes == 256
    assert first.resources.dynamic_shared_bytes == 4096
    assert first.arch == arch
    assert first.compile_seconds > 0
    assert not first.cached
    assert pool.compile(k, arch) == dataclasses.replace(first, cached=True)


def test_the_same_source_gives_the_same_cubin(pool, tmp_path):
    with CompilePool(CompileCache(tmp_path / "other"), workers=1) as other:
        assert pool.compile(kernel("k"), "sm_90a").digest == other.compile(kernel("k"), "sm_90a").digest


def test_kernels_in_flight_that_share_their_code_are_compiled_once(pool):
    futures = [pool.submit(kernel("k", grid=(blocks, 1, 1)), "sm_90a") for blocks in (1, 2, 3, 4)]
    compiled = [future.result() for future in futures]
    assert sorted(c.cached for c in compiled) == [False, True, True, True]
    assert len({c.digest for c in compiled}) == 1


def test_a_changed_header_is_compiled_again(pool, tmp_path):
    (tmp_path / "value.cuh").write_text("#define VALUE 1.0f\n")

    def fresh():
        k = kernel("k", "x[0] = VALUE;", headers=Headers.from_folder(tmp_path))
        return dataclasses.replace(k, source="#include <value.cuh>\n" + k.source)

    one = pool.compile(fresh(), "sm_90a")
    (tmp_path / "value.cuh").write_text("#define VALUE 2.0f\n")
    two = pool.compile(fresh(), "sm_90a")
    assert one.digest != two.digest


TEMPLATE = """#include <own/value.cuh>
namespace ns {
template <class T, int N> __global__ void fill(T* x) { __shared__ T s[N]; s[0] = VALUE; x[0] = s[0] + OFFSET; }
}
__global__ void plain(float* x) { x[0] = VALUE; }
"""


def test_an_entry_may_be_an_instance_of_a_template_or_have_a_mangled_name(pool):
    k = kernel(
        "ns::fill<float, 64>",
        source=TEMPLATE,
        headers=Headers.of({"own/value.cuh": "#define VALUE 3\n"}),
        compile_options=("-DOFFSET=2",),
    )
    one = pool.compile(k, "sm_90a")
    assert isinstance(one, Compiled), one.reason
    assert one.entry == "_ZN2ns4fillIfLi64EEEvPT_"
    assert pool.compile(dataclasses.replace(k, entry="plain"), "sm_90a").entry == "_Z5plainPf"
    assert pool.compile(dataclasses.replace(k, compile_options=("-DOFFSET=3",)), "sm_90a").digest != one.digest
    wrong = pool.compile(dataclasses.replace(k, entry="ns::fil<float, 64>"), "sm_90a")
    assert wrong.status is Status.COMPILE_ERROR
    assert wrong.reason.startswith(
        "no entry function 'ns::fil<float, 64>' was compiled: namespace \"ns\" has no member"
    )
    option = pool.compile(dataclasses.replace(k, compile_options=("--bogus",)), "sm_90a")
    assert (option.status, option.reason) == (Status.COMPILE_ERROR, "nvrtc: unrecognized option --bogus found")


def test_an_error_in_our_header_is_reported_with_its_include_path(pool):
    problem = Matmul(m=64, n=64, k=64)
    schedule = template("matmul").space(problem, device("h200")).sample(1, 1)[0]
    good = generate(problem, schedule, device("h200"))
    name = "autosched/kernels/matmul.cuh"
    broken = f'static_assert(1 > 2, "no");\n{dict(good.headers.files)[name]}'
    failed = pool.compile(dataclasses.replace(good, headers=good.headers | Headers.of({name: broken})), "sm_90a")
    assert failed.reason == f'{name}:1: static assertion failed with "no"'


def test_failures_are_reported_with_message_and_position(pool, tmp_path):
    (tmp_path / "broken.cuh").write_text('\nstatic_assert(1 > 2, "one is more than two");\n')
    failing = kernel("k", headers=Headers.from_folder(tmp_path))
    failing = dataclasses.replace(failing, source="#include <broken.cuh>\n" + failing.source)
    failed = pool.compile(failing, "sm_90a")
    assert isinstance(failed, CompileFailure)
    assert failed.status is Status.COMPILE_ERROR
    assert failed.reason == 'broken.cuh:2: static assertion failed with "one is more than two"'

    shared = pool.compile(kernel("k", "__shared__ float s[90000]; s[threadIdx.x] = *x; x[1] = s[*(int*)x];"), "sm_90a")
    assert shared.status is Status.OUT_OF_RESOURCES
    assert "too much shared data" in shared.reason

    unnamed = pool.compile(dataclasses.replace(kernel("k"), entry="another"), "sm_90a")
    assert unnamed.status is Status.COMPILE_ERROR
    assert "another" in unnamed.reason

    arch = pool.compile(kernel("k"), "sm_13")
    assert arch.status is Status.COMPILE_ERROR
    assert "architecture" in arch.reason


def test_many_kernels_give_one_result_each(pool):
    kernels = [kernel(f"k{i}", "this is wrong" if i % 3 == 0 else f"x[{i}] = {i};") for i in range(20)]
    results = list(compile_many(pool, kernels, "sm_90a"))
    assert sorted(i for i, _ in results) == list(range(20))
    for i, result in results:
        assert isinstance(result, CompileFailure) == (i % 3 == 0)


def test_the_time_limit_ends_the_compiler_but_not_the_pool(tmp_path):
    endless = GeneratedKernel(entry="endless", source=ENDLESS, arguments=(), grid=(1, 1, 1), block=(1, 1, 1))
    with CompilePool(CompileCache(tmp_path), workers=1, time_limit=1.0) as pool:
        pool.compile(kernel("warm"), "sm_90a")
        (pid,) = pool.pids
        results = dict(compile_many(pool, [endless, kernel("k")], "sm_90a"))
        assert results[0] == CompileFailure(Status.COMPILE_TIMEOUT, "not compiled within 1 CPU seconds")
        assert isinstance(results[1], Compiled)
        assert not Path(f"/proc/{pid}").exists()


DYING = """
import os, signal
from measurements.compiler import nvrtc_worker as compile_worker
from measurements.workers.worker import serve

def handle(request):
    if "deadly" in request["source"]:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "once" in request["source"] and not os.path.exists(__file__ + ".mark"):
        open(__file__ + ".mark", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if "raise" in request["source"]:
        raise MemoryError
    return compile_worker.handle(request)

serve(handle)
"""


def test_a_compiler_that_crashes_is_tried_twice(tmp_path):
    (tmp_path / "dying_worker.py").write_text(DYING)
    with CompilePool(
        CompileCache(tmp_path / "cache"), workers=1, worker_module="dying_worker", python_path=[str(tmp_path)]
    ) as pool:
        kernels = [kernel("k", "// deadly\n"), kernel("k", "// once\n"), kernel("k", "// raise\n"), kernel("k")]
        results = dict(compile_many(pool, kernels, "sm_90a"))
    assert results[0].status is Status.CRASHED
    assert "SIGSEGV" in results[0].reason
    assert isinstance(results[1], Compiled)
    assert results[2].status is Status.CRASHED
    assert "MemoryError" in results[2].reason
    assert isinstance(results[3], Compiled)


ANSWERS = {
    "nothing": {},
    "an empty program": {"cubin": "", "entry": "k", "log": "", "seconds": 0.1},
    "a program that did not come": {"cubin": "0" * 64, "entry": "k", "log": "", "seconds": 0.1},
    "a number for a program": {"cubin": 5, "entry": "k", "log": "", "seconds": 0.1},
    "no time": {"cubin": None, "entry": "k", "log": "", "seconds": "soon"},
    "an endless time": {"cubin": None, "entry": "k", "log": "", "seconds": math.inf},
    "no log": {"cubin": None, "entry": "k", "seconds": 0.1},
}


def answering(tmp_path, answer) -> CompilePool:
    source = f"from math import inf\nfrom measurements.workers.worker import serve\nserve(lambda request: {answer!r})\n"
    (tmp_path / "answering_worker.py").write_text(source)
    cache = CompileCache(tmp_path / "cache")
    return CompilePool(cache, workers=1, worker_module="answering_worker", python_path=[str(tmp_path)])


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_invalid_response_is_a_compiler_crash(tmp_path, answer):
    with answering(tmp_path, answer) as pool:
        failure = pool.compile(kernel("k"), "sm_90a")
    assert failure.status is Status.CRASHED
    assert failure.reason.startswith("the compiler's reply is malformed: ")


def test_control_characters_of_logs_are_escaped_and_long_logs_truncated(tmp_path):
    log = "k.cu(3): error: \x1b[2J\x07bad \x00\rgood \udc80" + "!" * 100_000
    with answering(tmp_path, {"cubin": None, "entry": "k", "log": log, "seconds": 0.1}) as pool:
        failure = pool.compile(kernel("k"), "sm_90a")
    assert failure.status is Status.COMPILE_ERROR
    assert failure.reason.startswith(r"k.cu:3: \x1b[2J\x07bad \x00\rgood \udc80!!")
    assert failure.reason.isprintable() and len(failure.reason) < 1100
    assert "\x1b" not in failure.log


def test_close_ends_running_compilations_and_leaves_no_process(tmp_path):
    endless = GeneratedKernel(entry="endless", source=ENDLESS, arguments=(), grid=(1, 1, 1), block=(1, 1, 1))
    pool = CompilePool(CompileCache(tmp_path), workers=2)
    results = compile_many(pool, [kernel("k"), *[endless] * 5], "sm_90a")
    assert next(results)[0] == 0
    time.sleep(0.3)
    pids = pool.pids
    assert pids
    closer = threading.Timer(0.2, pool.close)
    closer.start()
    assert list(results) == []
    closer.join()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(kernel("k"), "sm_90a")


def test_leaving_the_iteration_cancels_pending_compilations(tmp_path):
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        results = compile_many(pool, [kernel(f"k{i}") for i in range(200)], "sm_90a")
        next(results)
        results.close()
        assert isinstance(pool.compile(kernel("last"), "sm_90a"), Compiled)
    assert len(list(tmp_path.rglob("*.cubin"))) < 20


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"time_limit": 0}, {"time_limit": float("nan")}])
def test_invalid_arguments_are_rejected(tmp_path, arguments):
    with pytest.raises(ValueError, match="must be"):
        CompilePool(CompileCache(tmp_path), **arguments)


def test_the_limits_of_the_device_are_known_before_the_launch():
    h200 = device("h200")

    def reason(threads, registers, static, dynamic):
        return over_limits(kernel("k", block=(threads, 1, 1)), Resources(registers, 0, 0, 0, static, dynamic), h200)

    assert reason(256, 255, 0, 232448) is None
    assert reason(1024, 64, 0, 0) is None
    assert "1025 threads" in reason(1025, 8, 0, 0)
    assert "registers" in reason(512, 160, 0, 0)
    assert "232449 bytes of shared memory" in reason(128, 8, 1, 232448)


def test_the_toolchain_has_a_version():
    assert toolchain_version().startswith("nvrtc 1")


def test_the_version_of_a_wheel_is_known_without_loading_it():
    program = (
        "import sys\n"
        "from measurements.compiler.nvrtc import loaded_version, toolchain_version\n"
        "said = toolchain_version()\n"
        "print('cuda.bindings.nvrtc' in sys.modules, said == loaded_version())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded, same = done.stdout.split()
    assert same == "True"
    wheels = (d.metadata["Name"] for d in importlib.metadata.distributions())
    if "nvidia-cuda-nvrtc" in wheels:
        assert loaded == "False"


def test_a_wheel_that_was_removed_in_part_has_no_version(tmp_path, monkeypatch):
    (tmp_path / f"{WHEEL.replace('-', '_')}-99.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert loaded_version.__wrapped__().startswith("nvrtc 1")


def test_a_missing_nvrtc_is_reported_with_its_installation():
    program = (
        "import sys; sys.modules['cuda'] = None\n"
        "from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version\n"
        "try: toolchain_version()\n"
        "except NvrtcMissing as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert len(done.stdout.splitlines()) == 1
    assert "pip install 'autosched[cuda13]'" in done.stdout


def test_close_while_others_wait_ends_every_iteration(tmp_path):
    """Closing the pool cancels waiting futures. as_completed must then end."""
    for pause in (0.0, 0.02, 0.2):
        with CompilePool(CompileCache(tmp_path / str(pause)), workers=1) as pool:
            kernels = [kernel(f"k{i}", f"x[threadIdx.x] = {i}.0f + {pause}f;") for i in range(12)]
            closer = threading.Timer(pause, pool.close)
            closer.start()
            with contextlib.suppress(RuntimeError):  # closed before the last kernel was submitted
                assert len(list(compile_many(pool, kernels, "sm_90a"))) <= 12
            closer.join()
