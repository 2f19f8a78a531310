"""Fakes replace the libraries that candidates are compared with. The fakes check the functions and arguments."""

import math
import subprocess
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from baseline_reasons import unjustified
from library_arrays import Stream, assert_right, operands
from needs import cpp_compiler

from measurements.runners.base import Entrant
from measurements.runners.cuda.libraries import baselines, cublas
from measurements.runners.cuda.libraries.baselines import OTHER_BASELINES, baseline_call
from measurements.trials.measurement import Status
from search_spaces.catalogue import operators
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

CUPY = SimpleNamespace(
    cuda=SimpleNamespace(alloc=lambda size: SimpleNamespace(ptr=4096), runtime=SimpleNamespace(getDevice=lambda: 0)),
    **{name: getattr(np, name) for name in ("sum", "mean", "amax", "subtract", "exp", "divide", "copyto")},
)


def call(name, problem):
    inputs, arrays = operands(problem)
    return inputs, arrays, baseline_call(name, CUPY, Stream(), problem, arrays, 0)


# ---- cuBLAS: a host library with the same interface, which multiplies as documented ----

CUBLAS = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static char handle; static void* stream; static size_t workspace;
int cublasGetProperty(int part, int* value) { *value = 13 - 5 * part; return part < 3 ? 0 : 7; }
int cublasCreate_v2(void** h) { *h = &handle; return 0; }
int cublasSetStream_v2(void* h, void* s) { stream = s; workspace = 0; return h == &handle ? 0 : 1; }
int cublasSetWorkspace_v2(void* h, void* w, size_t size) { workspace = size; return w == (void*)4096 ? 0 : 1; }
static float load(const void* p, int type, long long i) {
  if (type == 0) return ((const float*)p)[i];
  if (type == 2) return (float)((const _Float16*)p)[i];
  uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16; float x; memcpy(&x, &bits, 4); return x;
}
static void store(void* p, int type, long long i, float x) {
  if (type == 0) ((float*)p)[i] = x;
  else if (type == 2) ((_Float16*)p)[i] = (_Float16)x;
  else {
    uint32_t bits; memcpy(&bits, &x, 4);
    ((uint16_t*)p)[i] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}
int cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha,
    const void* a, int at, int lda, long long sa, const void* b, int bt, int ldb, long long sb, const void* beta,
    void* c, int ct, int ldc, long long sc, int batch, int compute, int algo) {
  if (h != &handle || stream != (void*)7 || workspace != (32u << 20) || algo != -1) return 1;
  if (at != bt || (at != ct && ct != 0)) return 15;
  if (compute == 64 ? at != 2 || ct != 2 : compute != (at == 0 ? 77 : 68) && !(at == 0 && compute == 68)) return 15;
  int scale = compute == 64 ? 2 : 0;
  for (int i = 0; i < batch; i++)
    for (int x = 0; x < m; x++)
      for (int y = 0; y < n; y++) {
        float sum = 0;
        for (int z = 0; z < k; z++)
          sum += load(a, at, i * sa + (ta ? z + (long long)x * lda : x + (long long)z * lda)) *
                 load(b, bt, i * sb + (tb ? y + (long long)z * ldb : z + (long long)y * ldb));
        store(c, ct, i * sc + x + (long long)y * ldc, load(alpha, scale, 0) * sum + load(beta, scale, 0));
      }
  return 0;
}
"""


@pytest.fixture(scope="module")
def cublas_file(tmp_path_factory):
    compiler = cpp_compiler()
    folder = tmp_path_factory.mktemp("cublas")
    (folder / "cublas.cpp").write_text(f'extern "C" {{\n{CUBLAS}\n}}\n')
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-w",
        "-o",
        str(folder / "libcublas.so"),
        str(folder / "cublas.cpp"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if "_Float16" in done.stderr:
        pytest.skip("the host compiler has no _Float16")
    assert done.returncode == 0, done.stderr
    return folder / "libcublas.so"


@pytest.fixture
def a_cublas(cublas_file, monkeypatch):
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path=str(cublas_file)))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
    monkeypatch.setattr(cublas, "_handles", {})
    cublas._library.cache_clear()
    cublas.library_version.cache_clear()
    yield
    cublas._library.cache_clear()
    cublas.library_version.cache_clear()


@pytest.fixture
def no_cublas(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.setattr(cublas, "_SONAMES", ("libno-such-cublas.so.1",))
    cublas._library.cache_clear()
    cublas.library_version.cache_clear()
    yield
    cublas._library.cache_clear()
    cublas.library_version.cache_clear()


@pytest.mark.usefixtures("a_cublas")
@pytest.mark.parametrize("order_a", ["row", "col"])
@pytest.mark.parametrize("order_b", ["row", "col"])
@pytest.mark.parametrize(
    "types",
    [
        {},
        {"out": "f32"},
        {"acc": "f16"},
        {"a": "bf16", "b": "bf16", "out": "bf16", "batch": 3},
        {"a": "f32", "b": "f32", "out": "f32", "precision": "ieee"},
        {"a": "f32", "b": "f32", "out": "f32", "batch": 2},
    ],
)
def test_cublas_multiplies_every_type_in_every_order(order_a, order_b, types):
    problem = Matmul(m=5, n=7, k=11, order_a=order_a, order_b=order_b, **types)
    inputs, arrays, baseline = call("library", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])
    assert not arrays[1]["out"].any()
    baseline(1)
    assert np.array_equal(arrays[0]["out"], arrays[1]["out"])


@pytest.mark.usefixtures("a_cublas")
def test_cublas_computes_a_matvec():
    problem = Matvec(m=3, n=9, k=20, x="bf16", out="f32")
    inputs, arrays, baseline = call("library", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])


@pytest.mark.usefixtures("a_cublas")
def test_unsupported_cublas_calls_have_a_reason():
    refused = Matmul(m=4, n=4, k=4, a="bf16", b="bf16", out="f16")
    assert call("library", refused)[2] == "library cannot be called: CublasError: cuBLAS returned status 15"
    bias = Matmul(m=4, n=4, k=4, epilogue="bias")
    assert call("library", bias)[2] == "the library cannot compute an epilogue in the same kernel"
    assert call("library", Softmax(4, 8))[2] == "no vendor library computes softmax"
    in_f16 = call("library", Matmul(m=4, n=4, k=4, acc="f16", out="f32"))[2]
    assert in_f16 == "the library accumulates in f16 only if out is f16, but out is f32"


@pytest.mark.usefixtures("a_cublas")
def test_the_version_of_cublas():
    assert cublas.library_version() == "cublas 13.8.3"


@pytest.mark.usefixtures("a_cublas")
def test_each_gpu_has_a_handle_of_its_own_for_the_default_stream():
    gemm = cublas.Gemm(2, 2, 2, 1, "f32", "f32")
    for gpu in (0, 1, 0):
        cp = SimpleNamespace(
            cuda=SimpleNamespace(alloc=CUPY.cuda.alloc, runtime=SimpleNamespace(getDevice=lambda gpu=gpu: gpu))
        )
        cublas.multiplier(cp, Stream(), gemm)
    assert list(cublas._handles) == [(0, 7), (1, 7)]


@pytest.mark.usefixtures("no_cublas")
def test_a_missing_cublas_is_reported():
    reason = call("library", Matmul(m=4, n=4, k=4))[2]
    assert reason.startswith("library cannot be called: CublasError: cuBLAS was not found (libno-such-cublas.so.1): ")
    assert "pip install nvidia-cublas" in reason


# ---- torch ----


class Tensor:
    """Fake tensor over a numpy array. ``bf16`` marks the type that numpy lacks."""

    def __init__(self, array, bf16=False):
        self.array, self.bf16, self.shape = array, bf16, array.shape

    def view(self, dtype):
        assert self.array.dtype == np.int16 and dtype == "torch.bfloat16"
        return Tensor(self.array, bf16=True)

    def reshape(self, shape):
        return Tensor(self.array.reshape(shape), self.bf16)

    def swapaxes(self, one, other):
        return Tensor(self.array.swapaxes(one, other), self.bf16)

    @property
    def T(self):
        return Tensor(self.array.T, self.bf16)

    def __getitem__(self, index):
        return Tensor(self.array[index], self.bf16)

    def copy_(self, other):
        assert self.shape == other.shape and self.array.dtype.kind == other.array.dtype.kind
        self.array[...] = other.array

    def values(self):
        if self.bf16:
            return (self.array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.array.astype(np.float64)

    def take(self, values):
        if self.bf16:
            bits = np.asarray(values, np.float32).view(np.uint32)
            values = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).view(np.int16)
        self.array[...] = values


class Torch(ModuleType):
    bfloat16, float32 = "torch.bfloat16", "torch.float32"
    queues = 0

    def __init__(self):
        super().__init__("torch")
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=None)))
        self.cuda = SimpleNamespace(ExternalStream=lambda address: address, stream=self.stream)
        self.linalg = SimpleNamespace(vector_norm=self.vector_norm)
        self.nn = SimpleNamespace(functional=SimpleNamespace(rms_norm=self.rms_norm, layer_norm=self.layer_norm))

    @contextmanager
    def stream(self, queue):
        assert queue == Stream.ptr
        self.queues += 1
        yield
        self.queues -= 1

    def as_tensor(self, array, device):
        assert (device == "cuda" and array.dtype.kind in "fi") or array.dtype == np.uint8
        return Tensor(array)

    def _into(self, out, values):
        assert self.queues == 1 and out.shape == values.shape
        out.take(values)

    def _like(self, x, values):
        tensor = Tensor(np.empty_like(x.array), x.bf16)
        tensor.take(values)
        return tensor

    def matmul(self, a, b, *, out):
        self._into(out, a.values() @ b.values())

    def softmax(self, x, dim, *, out):
        e = np.exp(x.values() - x.values().max(dim, keepdims=True))
        self._into(out, e / e.sum(dim, keepdims=True))

    def sum(self, x, dim, *, out):
        self._into(out, x.values().sum(dim))

    def mean(self, x, dim, *, out):
        self._into(out, x.values().mean(dim))

    def amax(self, x, dim, *, out):
        self._into(out, x.values().max(dim))

    def argmax(self, x, dim):
        return Tensor(x.values().argmax(dim))

    def vector_norm(self, x, *, dim, dtype):
        assert dtype == self.float32
        return Tensor(np.sqrt(np.square(x.values()).sum(dim)).astype(np.float32))

    def square(self, x, *, out):
        self._into(out, np.square(x.values()))

    def rms_norm(self, x, shape, *, weight, eps):
        v = x.values()
        assert shape == v.shape[-1:]
        return self._like(x, v / np.sqrt((v * v).mean(-1, keepdims=True) + eps) * weight.values())

    def layer_norm(self, x, shape, *, weight, bias, eps):
        v = x.values()
        c = v - v.mean(-1, keepdims=True)
        return self._like(x, c / np.sqrt((c * c).mean(-1, keepdims=True) + eps) * weight.values() + bias.values())


@pytest.fixture
def torch(monkeypatch):
    module = Torch()
    kernels = ModuleType("triton_matmul")
    kernels.matmul = lambda a, b, out: module.matmul(a, b, out=out)
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setitem(sys.modules, "measurements.runners.cuda.libraries.triton_matmul", kernels)
    return module


PROBLEMS = [
    Matmul(m=5, n=7, k=11, order_b="col"),
    Matmul(m=5, n=7, k=11, batch=2, order_a="col", a="bf16", b="bf16", out="bf16"),
    Matmul(m=5, n=7, k=11, a="f32", b="f32", out="f32"),
    Matvec(m=3, n=9, k=20, x="bf16", out="bf16"),
    Reduce(6, 8),
    Reduce(6, 8, kind="max", dtype="bf16", out="bf16"),
    Reduce(6, 8, kind="mean", axis="column"),
    Reduce(6, 8, reduction_size=4),
    Reduce(6, 8, reduction_size=2, axis="column"),
    Reduce(6, 8, kind="sumsq"),
    Reduce(6, 8, kind="sumsq", dtype="bf16", out="bf16", axis="column", reduction_size=3),
    Reduce(6, 8, kind="argmax", out="u32"),
    Reduce(6, 8, kind="argmax", dtype="bf16", out="u32", axis="column", reduction_size=3),
    Softmax(6, 8),
    RmsNorm(6, 8, dtype="bf16", out="bf16"),
    LayerNorm(6, 8),
    Transpose(4, 6, batch=2, dtype="u128"),
    Transpose(4, 6, dtype="u16"),
    Transpose(4, 6, dtype="u8"),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.key())
def test_torch_agrees_with_our_reference(torch, problem):
    inputs, arrays, baseline = call("torch", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])
    baseline(1)
    assert torch.queues == 0
    if problem.operator == "matmul" and problem.a == "f32":
        assert torch.backends.cuda.matmul.allow_tf32 is True


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p.operator in ("matmul", "matvec")], ids=lambda p: p.key())
def test_triton_agrees_with_our_reference(torch, problem):
    inputs, arrays, baseline = call("triton", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])


def test_torch_and_triton_report_unsupported_problems(torch):
    assert call("torch", Matmul(m=4, n=4, k=4, out="f32"))[2] == "torch does not convert f16 to f32"
    relu = Matmul(m=4, n=4, k=4, epilogue="relu")
    assert call("torch", relu)[2] == "torch cannot compute an epilogue in the same kernel"
    summed = Matmul(m=4, n=4, k=4, reduction="row_sum")
    assert call("torch", summed)[2] == "torch cannot reduce a product in the same kernel"
    assert call("torch", Reduce(4, 4, kind="sum", out="f32"))[2] == "torch does not convert f16 to f32"
    assert call("triton", Softmax(4, 8))[2] == "triton has no operator softmax"
    ieee = Matmul(m=4, n=4, k=4, a="f32", b="f32", out="f32", precision="ieee")
    assert call("triton", ieee)[2] == "the Triton kernel multiplies f32 as tf32"


@pytest.mark.parametrize("name", ["torch", "triton"])
def test_a_missing_torch_is_reported(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    reason = call(name, Softmax(4, 8))[2]
    assert reason.startswith(f"{name} cannot be called: ModuleNotFoundError: ")
    assert "\n" not in reason


# ---- cupy ----


def _uncalled(problem):
    """Return True if the problem is a reduction that no single call of cupy computes."""
    return getattr(problem, "kind", "") in ("sumsq", "argmax")


@pytest.mark.parametrize(
    "problem",
    [
        *(p for p in PROBLEMS if p.operator in ("reduce", "transpose") and p.dtype != "bf16" and not _uncalled(p)),
        Softmax(6, 8, dtype="f32", out="f32"),
    ],
    ids=lambda p: p.key(),
)
def test_cupy_agrees_with_our_reference(problem):
    inputs, arrays, baseline = call("cupy", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"], tolerances=4.0)
    baseline(1)
    assert np.array_equal(arrays[0]["out"], arrays[1]["out"])


def test_cupy_reports_unsupported_problems():
    assert call("cupy", Softmax(4, 8, dtype="bf16", out="bf16"))[2] == "cupy does not support bf16"
    assert call("cupy", Matvec(1, 8, 8))[2] == "cupy has no operator matvec"
    assert call("cupy", Reduce(4, 4, kind="sumsq"))[2] == "cupy has no single function for the reduction sumsq"
    argmax = Reduce(4, 4, kind="argmax", out="u32")
    assert call("cupy", argmax)[2] == "cupy has no single function for the reduction argmax"


def test_a_copy_moves_as_many_bytes_as_the_problem_must_at_least():
    moved = []

    class Memory:
        def __init__(self, at=0):
            self.at = at

        def __add__(self, offset):
            return Memory(self.at + offset)

        def copy_from_device_async(self, source, size, stream):
            moved.append((source.at, self.at, size))

    cp = SimpleNamespace(cuda=SimpleNamespace(alloc=lambda size: Memory()))
    problem = Transpose(64, 64)
    baseline = baseline_call("copy", cp, Stream(), problem, [], 4 * problem.min_bytes)
    for copy in range(4):
        baseline(copy)
    half = math.ceil(problem.min_bytes / 2)
    assert [size for _, _, size in moved] == [half] * 4
    assert len({address for source, target, _ in moved for address in (source, target)}) == 8


def test_every_operator_has_a_baseline_other_than_copy(torch):
    for row in operators():
        known = [name for name in OTHER_BASELINES if name != "copy" and _known(name, row.name)]
        assert known, row.name


def _known(name, operator):
    problem = next((p for p in PROBLEMS if p.operator == operator), None)
    return problem is None or callable(call(name, problem)[2])


# ---- reasons for a missing time that the GPU test accepts ----


def entrants(problem, *names):
    baselines = ((name, call(name, problem)[2]) for name in names)
    return [
        Entrant(name, Status.LAUNCH_ERROR, of, ()) if isinstance(of, str) else Entrant(name, Status.OK, "", (1.0,))
        for name, of in baselines
    ]


def test_legitimate_reasons_are_justified(torch):
    for problem in (Matmul(m=4, n=4, k=4, out="f32"), Softmax(4, 8), Reduce(4, 4, kind="sumsq"), Transpose(4, 6)):
        assert unjustified(problem, entrants(problem, "torch", "triton", "cupy"), torch_works=True) == []


@pytest.mark.parametrize("error", [TypeError, AttributeError, NameError, ValueError, KeyError, ImportError])
def test_internal_errors_are_not_justified(torch, monkeypatch, error):
    def broken(*_):
        raise error("no such thing")

    monkeypatch.setitem(baselines._CUPY, "transpose", broken)
    monkeypatch.setitem(baselines._TRITON, "transpose", broken)
    problem = Transpose(4, 6)
    cupy, triton = unjustified(problem, entrants(problem, "cupy", "torch", "triton"), torch_works=True)
    assert cupy.startswith(f"cupy: cupy cannot be called: {error.__name__}: ")
    assert triton.startswith(f"triton: triton cannot be called: {error.__name__}: ")
    reasons = unjustified(problem, entrants(problem, "triton"), torch_works=False)
    assert bool(reasons) is (error is not ImportError), "torch may be installed and broken"


def test_a_missing_torch_is_justified(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    problem = Matvec(m=3, n=9, k=20)
    assert unjustified(problem, entrants(problem, "torch", "triton"), torch_works=False) == []


def test_a_failure_of_a_working_torch_is_not_justified(torch, monkeypatch):
    def slow(*_):
        raise RuntimeError("out of order")

    problem = Softmax(4, 8)
    monkeypatch.setitem(baselines._TORCH, "softmax", slow)
    failed = entrants(problem, "torch")
    assert unjustified(problem, failed, torch_works=True) == [
        "torch: torch cannot be called: RuntimeError: out of order"
    ]
    assert unjustified(problem, failed, torch_works=False) == []


def test_cublaslt_is_due_for_a_matmul_that_cublas_computes():
    without = Entrant("cublaslt", Status.LAUNCH_ERROR, "cuBLASLt returned status 15", ())
    for status, complaints in ((Status.OK, 1), (Status.LAUNCH_ERROR, 0)):
        library = Entrant("library", status, "", ())
        assert len(unjustified(Matmul(m=4, n=4, k=4), [library, without], torch_works=False)) == complaints
        assert unjustified(Matvec(m=4, n=4, k=4), [library, without], torch_works=False) == []
