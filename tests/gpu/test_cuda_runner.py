"""The cuda runner on a real GPU verifies results, survives faults, and measures plausible times."""

import dataclasses
import importlib
import statistics

import pytest
from baseline_reasons import unjustified
from kernels import generate, space_of

from measurements.compiler.pool import CompileCache, CompilePool
from measurements.runners.base import Candidate
from measurements.runners.cuda.libraries.baselines import OTHER_BASELINES
from measurements.runners.cuda.runner import CudaOptions, CudaRunner, cuda_available, cuda_device
from measurements.runners.cuda.supervisor import TimeLimits
from measurements.trials.measurement import Status
from measurements.trials.policy import Policy
from measurements.trials.timing_statistics import StopRule
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

pytestmark = pytest.mark.gpu

PROBLEM = Matmul(m=129, n=65, k=33, a="f32", b="f32", out="f32", precision="ieee")


@pytest.fixture(scope="module", autouse=True)
def gpu():
    here, why = cuda_available()
    if not here:
        pytest.skip(why)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with CompilePool(CompileCache(tmp_path_factory.mktemp("cache"))) as p:
        yield p


def runner_of(pool, **options) -> CudaRunner:
    limits = TimeLimits(candidate=20.0)
    return CudaRunner(cuda_device(), pool, options=CudaOptions(limits=limits, launch_limit=1.0, **options))


@pytest.fixture
def make_runner(pool):
    runners = []

    def make(**options) -> CudaRunner:
        runners.append(runner_of(pool, **options))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture(scope="module")
def runner(pool):
    """Yield a runner that tests share, since a worker takes seconds to start and torch takes seconds to import."""
    shared = runner_of(pool)
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def torch_works() -> bool:
    """Return True if torch is installed and sees the GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return False
    return torch.cuda.is_available()


def naive(problem: Matmul, before: str = "", after: str = "", shared: int = 0, name: str = "naive") -> Candidate:
    """Return an f32 kernel with one thread per element of out. ``before`` and ``after`` surround its body."""
    p = problem
    a = "a[i * K + k]" if p.order_a == "row" else "a[k * M + i]"
    b = "b[k * N + j]" if p.order_b == "row" else "b[j * K + k]"
    source = f"""
constexpr int M = {p.m}, N = {p.n}, K = {p.k};
extern "C" __global__ void __launch_bounds__(256) {name}(float* a, float* b, float* out) {{
  const int index = blockIdx.x * 256 + threadIdx.x;
  const int i = index / N, j = index % N;
  {before}
  if (index < M * N) {{
    float sum = 0;
    for (int k = 0; k < K; k++) sum += {a} * {b};
    out[index] = sum;
  }}
  {after}
}}
"""
    blocks = -(-p.m * p.n // 256)
    kernel = GeneratedKernel(
        entry=name,
        source=source,
        arguments=p.operands(),
        grid=(blocks, 1, 1),
        block=(256, 1, 1),
        dynamic_shared_bytes=shared,
    )
    return Candidate(p, Schedule("matmul", ()), kernel)


FAULTS = {
    Status.OK: [{}, {"shared": 100_000}],
    Status.WRONG_RESULT: [
        {"after": "if (index == 77) out[index] += 1.0f;"},
        {"after": "if (index == 78) out[index] = __int_as_float(0x7fffffff);"},
        {"before": "if (i == 100) return;"},
        {"after": "if (index == 0) a[5] = 0.0f;"},
        {"after": "if (index == 0) out[M * N + 3] = 0.0f;"},
    ],
    Status.LAUNCH_ERROR: [
        {"after": "if (index == 0) *(float*)0x10 = 1.0f;"},
        {"after": "if (index == 0) *(volatile float*)((char*)out + 2) = 1.0f;"},
        {"after": "if (index == 0) __trap();"},
    ],
    Status.TIMEOUT: [{"after": "while (*(volatile float*)out != -12345.0f);"}],
    Status.OUT_OF_RESOURCES: [{"shared": 300_000}],
}


def test_every_fault_has_its_status_and_the_next_candidate_is_right(make_runner):
    runner = make_runner()
    cases = [(status, case) for status, cases in FAULTS.items() for case in cases]
    interleaved = []
    for i, (status, case) in enumerate(cases):
        interleaved += [(status, naive(PROBLEM, name=f"case{i}", **case)), (Status.OK, naive(PROBLEM, name=f"good{i}"))]
    results = dict(runner.measure([c for _, c in interleaved]))
    for i, (status, _) in enumerate(interleaved):
        assert results[i].status is status, results[i].reason
    assert runner.restarts >= 4


@pytest.mark.parametrize("order_a", ["row", "col"])
@pytest.mark.parametrize("order_b", ["row", "col"])
def test_storage_orders(runner, order_a, order_b):
    problem = Matmul(
        m=64, n=96, k=40, a="f32", b="f32", out="f32", order_a=order_a, order_b=order_b, precision="ieee"
    )  # fmt: skip
    (result,) = runner.measure([naive(problem)])
    assert result[1].ok, result[1].reason
    assert 0 < result[1].error <= 1


def test_graph_replay_and_event_pairs_agree(make_runner):
    problem = Matmul(m=512, n=512, k=2048, a="f32", b="f32", out="f32", precision="ieee")
    times = []
    for graph_below in (1.0, 0.0):
        (result,) = make_runner(graph_below=graph_below).measure([naive(problem)])
        times.append(result[1].timing.median)
    assert times[0] == pytest.approx(times[1], rel=0.1)


def test_operands_in_a_warm_cache_are_read_faster_than_from_memory(make_runner):
    # Few threads read a matrix of 16 MB once, coalesced, so the kernel is limited by latency.
    problem = Matmul(m=4096, n=1, k=1024, a="f32", b="f32", out="f32", order_a="col", precision="ieee")
    medians = []
    for warm in (True, False):
        (result,) = make_runner(policy=Policy("warm" if warm else "cold"), rule=StopRule(min_repeats=20)).measure(
            [naive(problem)]
        )
        assert result[1].ok, result[1].reason
        medians.append(result[1].timing.median)
    assert medians[0] < medians[1]


def test_a_zeroed_workspace_must_be_zero_after_the_launch(runner):
    counters = Operand("counters", "workspace", U32, (16,), zeroed=True)
    candidates = []
    for name, after in (("clean", "atomicAdd(n, 1u); atomicSub(n, 1u);"), ("unclean", "atomicAdd(n, 1u);")):
        plain = naive(PROBLEM, after=after, name=name).kernel
        source = plain.source.replace("float* out)", "float* out, unsigned* n)")
        kernel = dataclasses.replace(
            plain, entry=name, source=source, arguments=(*plain.arguments, counters), dynamic_shared_bytes=0
        )
        candidates.append(Candidate(PROBLEM, Schedule("matmul", ()), kernel))
    results = dict(runner.measure(candidates))
    assert results[0].ok, results[0].reason
    assert results[1].status is Status.WRONG_RESULT
    assert "counters" in results[1].reason


def test_a_comparison_finds_that_a_kernel_is_as_fast_as_itself(runner):
    problem = Matmul(m=512, n=512, k=512, a="f32", b="f32", out="f32")
    one, other, library = runner.compare([naive(problem), naive(problem, name="other")], rounds=20)
    ratio = statistics.median(a / b for a, b in zip(one.seconds, other.seconds, strict=True))
    assert ratio == pytest.approx(1.0, abs=0.03)
    if library.status is Status.OK:
        assert statistics.median(library.seconds) < statistics.median(one.seconds)
    else:
        assert library.reason


@pytest.mark.parametrize(
    "problem",
    [
        Matmul(m=128, n=96, k=64, order_a="col"),
        Matmul(m=128, n=96, k=64, batch=3, a="bf16", b="bf16", out="bf16", order_b="col"),
        Matmul(m=128, n=96, k=64, a="bf16", b="bf16", out="f32"),
        Matmul(m=128, n=96, k=64, a="f32", b="f32", out="f32"),
        Matvec(m=3, n=256, k=512),
        Reduce(64, 512, kind="max"),
        Reduce(64, 512, axis="column", dtype="f32", out="f32"),
        Softmax(64, 512, dtype="bf16", out="bf16"),
        RmsNorm(64, 512),
        LayerNorm(64, 512),
        Transpose(128, 96, dtype="u16"),
    ],
    ids=lambda p: p.key(),
)
def test_every_baseline_agrees_or_has_a_reason_for_its_absence(runner, torch_works, problem):
    schedule = space_of(problem, runner.device).sample(1, 0)[0]
    ours = Candidate(problem, schedule, generate(problem, schedule, runner.device))
    own, library, *baselines = runner.compare([ours], rounds=5, other_baselines=OTHER_BASELINES)
    assert own.status is Status.OK, own.reason
    for entrant in (library, *baselines):
        assert (len(entrant.seconds) == 5) is (entrant.status is Status.OK)
        assert "something else" not in entrant.reason
    if problem.operator in ("matmul", "matvec") and "was not found" not in library.reason:
        assert library.status is Status.OK, library.reason
    assert unjustified(problem, (library, *baselines), torch_works=torch_works) == []


def test_the_fingerprint_names_the_gpu(runner):
    fingerprint = runner.fingerprint()
    assert fingerprint["name"]
    assert int(fingerprint["sm_count"]) == cuda_device().sm_count
    assert all(fingerprint.values())


def test_cpu_references_are_never_caused_by_internal_errors(runner):
    """A CPU reference takes seconds, so it may only be used if cupy lacks cuBLAS or headers."""
    for epilogue in ("none", "gelu"):
        problem = Matmul(m=64, n=48, k=40, a="f32", b="f32", out="f32", precision="ieee", epilogue=epilogue)
        (result,) = runner.measure([naive(problem)])
        # with gelu the result is wrong, because the kernel has no epilogue
        assert result[1].ok == (epilogue == "none"), result[1].reason
    mistakes = ("TypeError", "AttributeError", "ValueError")
    assert [why for why in runner.cpu_references if why.startswith(mistakes)] == []
