"""Calls of cuBLASLt through its C interface give correct results.

Most tests use a host library that multiplies according to the descriptors. If the real library is installed, it must
accept the descriptors, which needs no GPU.
"""

import ctypes
import subprocess
import sys
from types import SimpleNamespace

import library_arrays
import numpy as np
import pytest
from library_arrays import OnDevice, assert_right, operands
from needs import cpp_compiler

from measurements.runners.cuda.libraries import cublas_lt
from measurements.runners.cuda.libraries.baselines import baseline_call
from measurements.runners.cuda.libraries.cublas import CublasError, Gemm
from search_spaces.operators.matmul import Matmul

# Fake cuBLASLt. It accepts the calls that NVIDIA's documentation allows, and rejects wrong attribute sizes. It offers
# three algorithms, the second of which cannot be launched. Its results depend on all attributes.
CUBLAS_LT = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <math.h>
struct Operation { int compute, scale_type, ta, tb, mode_a, mode_b; const float *scale_a, *scale_b; int8_t fast; };
struct Layout { int type; uint64_t rows, cols; int64_t ld; int32_t batch; int64_t stride; };
struct Preference { uint64_t workspace; uint32_t alignment[4]; };
struct Result { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
static char handle; int launches[4], refused;
int cublasLtCreate(void** h) { *h = &handle; return 0; }
int cublasLtMatmulDescCreate(Operation** d, int compute, int scale) { *d = new Operation{compute, scale}; return 0; }
int cublasLtMatmulDescSetAttribute(Operation* d, int what, const void* value, size_t size) {
  if (what == 3 && size == 4) memcpy(&d->ta, value, 4);
  else if (what == 4 && size == 4) memcpy(&d->tb, value, 4);
  else if (what == 17 && size == 8) memcpy(&d->scale_a, value, 8);
  else if (what == 18 && size == 8) memcpy(&d->scale_b, value, 8);
  else if (what == 25 && size == 1) memcpy(&d->fast, value, 1);
  else if (what == 31 && size == 4) memcpy(&d->mode_a, value, 4);
  else if (what == 32 && size == 4) memcpy(&d->mode_b, value, 4);
  else return 7;
  return 0;
}
int cublasLtMatrixLayoutCreate(Layout** l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *l = new Layout{type, rows, cols, ld, 1, 0};
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(Layout* l, int what, const void* value, size_t size) {
  if (what == 5 && size == 4) memcpy(&l->batch, value, 4);
  else if (what == 6 && size == 8) memcpy(&l->stride, value, 8);
  else return 7;
  return 0;
}
int cublasLtMatmulPreferenceCreate(Preference** p) { *p = new Preference{}; return 0; }
int cublasLtMatmulPreferenceDestroy(Preference* p) { delete p; return 0; }
int cublasLtMatmulPreferenceSetAttribute(Preference* p, int what, const void* value, size_t size) {
  if (what == 1 && size == 8) memcpy(&p->workspace, value, 8);
  else if (what >= 5 && what <= 8 && size == 4) memcpy(&p->alignment[what - 5], value, 4);
  else return 7;
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void* h, Operation* d, Layout* a, Layout* b, Layout* c, Layout* out, Preference* p,
                                   int count, Result* results, int* found) {
  if (h != &handle || p->workspace != (32u << 20) || p->alignment[0] != 16 || p->alignment[3] != 16) return 7;
  bool fp8 = a->type >= 28;
  if (fp8 && (!d->ta || d->tb || d->fast != 1 || (a->type == 29 && b->type == 29))) return 15;
  if (a->type == 3 && (d->compute != 72 || d->scale_type != 10 || out->type != 10)) return 15;
  bool in_f16 = d->compute == 64 && d->scale_type == 2 && a->type == 2 && out->type == 2;
  if (a->type != 3 && d->compute != 68 && !in_f16) return 15;
  *found = count < 3 ? count : 3;
  for (int i = 0; i < *found; i++) { memset(&results[i], 0, sizeof(Result)); results[i].algorithm[0] = 40 + i; }
  return 0;
}
static float value(const void* p, int type, long long i) {
  if (type == 0) return ((const float*)p)[i];
  if (type == 2) return (float)((const _Float16*)p)[i];
  if (type == 3) return ((const int8_t*)p)[i];
  if (type == 14) { uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16; float x; memcpy(&x, &bits, 4); return x; }
  uint8_t bits = ((const uint8_t*)p)[i];
  int mantissa_bits = type == 28 ? 3 : 2, bias = type == 28 ? 7 : 15;
  int exponent = (bits & 127) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  float x = exponent ? ldexpf(1.0f + (float)mantissa / (1 << mantissa_bits), exponent - bias)
                     : ldexpf((float)mantissa / (1 << mantissa_bits), 1 - bias);
  return bits & 128 ? -x : x;
}
int cublasLtMatmul(void* h, Operation* d, const void* alpha, const void* a, Layout* al, const void* b, Layout* bl,
                   const void* beta, const void* c, Layout* cl, void* out, Layout* ol, const uint64_t* algorithm,
                   void* workspace, size_t size, void* stream) {
  if (h != &handle || stream != (void*)7 || workspace != (void*)4096 || size != (32u << 20) || c != out) return 7;
  if (algorithm[0] == 41) { refused++; return 15; }
  launches[algorithm[0] - 40]++;
  long long m = ol->rows, n = ol->cols, k = d->ta ? al->rows : al->cols;
  for (int i = 0; i < ol->batch; i++)
    for (long long x = 0; x < m; x++)
      for (long long y = 0; y < n; y++) {
        float sum = 0;
        for (long long z = 0; z < k; z++)
          sum += value(a, al->type, i * al->stride + (d->ta ? z + x * al->ld : x + z * al->ld)) *
                 value(b, bl->type, i * bl->stride + (d->tb ? y + z * bl->ld : z + y * bl->ld));
        if (d->scale_a) sum *= d->scale_a[d->mode_a == 3 ? x : 0];
        if (d->scale_b) sum *= d->scale_b[d->mode_b == 3 ? y : 0];
        long long at = i * ol->stride + x + y * ol->ld;
        if (ol->type == 10) ((int32_t*)out)[at] = (int32_t)sum * *(const int32_t*)alpha;
        else if (ol->type == 0) ((float*)out)[at] = sum * *(const float*)alpha;
        else if (ol->type == 2) ((_Float16*)out)[at] = (_Float16)(sum * value(alpha, d->scale_type, 0));
        else {
          uint32_t bits; memcpy(&bits, &sum, 4);
          ((uint16_t*)out)[at] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
        }
      }
  return 0;
}
"""


def launches():
    """Return the fake library's counters of launches by algorithm."""
    return (ctypes.c_int * 4).in_dll(cublas_lt._library(), "launches")


class Stream(library_arrays.Stream):
    """Fake stream. Launches between begin_capture and end_capture are executed by the graph instead.

    Captured launches are removed from ``launches``; each launch of the graph adds them again.
    """

    def __init__(self):
        self.before, self.captures, self.refuses = None, 0, None

    def begin_capture(self):
        assert self.before is None, "captures do not nest"
        self.before = list(launches())

    def end_capture(self):
        before, self.before = self.before, None
        work = [after - now for after, now in zip(launches(), before, strict=True)]
        launches()[:] = before
        if self.refuses is not None and work[self.refuses]:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        self.captures += 1
        return Graph(work)


class Graph:
    def __init__(self, work):
        self.work = work

    def launch(self, stream):
        launches()[:] = [now + more for now, more in zip(launches(), self.work, strict=True)]


class Event:
    """Fake event. The launched algorithms determine the elapsed milliseconds. The third algorithm is the fastest."""

    third = 1e-3

    def record(self, stream):
        counts = launches()
        self.at = self.third * (5.0 * counts[0] + counts[2])

    def synchronize(self):
        pass


HOST = 10e-3  # milliseconds that the host needs to launch a kernel or a graph


CUPY = SimpleNamespace(
    cuda=SimpleNamespace(
        alloc=lambda size: SimpleNamespace(ptr=4096),
        runtime=SimpleNamespace(getDevice=lambda: 0),
        Event=Event,
        get_elapsed_time=lambda begin, end: max(end.at - begin.at, HOST),
    )
)


@pytest.fixture(scope="module")
def library_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cublas_lt")
    (folder / "lt.cpp").write_text(f'extern "C" {{\n{CUBLAS_LT}\n}}\n')
    command = [cpp_compiler(), "-shared", "-fPIC", "-O1", "-w", "-o", str(folder / "lt.so"), str(folder / "lt.cpp")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "lt.so"


@pytest.fixture
def library(library_file, monkeypatch):
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path=str(library_file)))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", finder)
    monkeypatch.setattr(cublas_lt, "_handles", {})
    cublas_lt._library.cache_clear()
    loaded = cublas_lt._library()
    ctypes.memset(ctypes.addressof((ctypes.c_int * 4).in_dll(loaded, "launches")), 0, 16)
    yield loaded
    cublas_lt._library.cache_clear()


def call(name, problem, stream=None):
    inputs, arrays = operands(problem)
    return inputs, arrays, baseline_call(name, CUPY, stream or Stream(), problem, arrays, 0)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("name", ["library", "cublaslt"])
@pytest.mark.parametrize(
    "types",
    [
        {"a": "e4m3"},
        {"a": "e4m3", "batch": 3, "out": "f32"},
        {"a": "e4m3", "scale": "tensor"},
        {"a": "e4m3", "scale": "row_column"},
        {"a": "i8"},
        {"a": "i8", "order_a": "col", "order_b": "row", "batch": 2},
    ],
)
def test_products_of_8_bit_types(name, types):
    problem = Matmul(m=5, n=7, k=32, **types)
    inputs, arrays, baseline = call(name, problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])
    baseline(1)
    assert np.array_equal(arrays[0]["out"], arrays[1]["out"])


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("batch", [1, 2])
def test_products_that_are_added_up_in_f16(batch):
    problem = Matmul(m=5, n=7, k=32, acc="f16", batch=batch)
    inputs, arrays, baseline = call("cublaslt", problem)
    assert callable(baseline), baseline
    assert_right(problem, inputs, arrays[0]["out"])
    why = "the library accumulates in f16 only if out is f16, but out is bf16"
    assert call("cublaslt", Matmul(m=5, n=7, k=32, acc="f16", out="bf16"))[2] == why


def algorithms_of(launch):
    """Return how often a call launches each algorithm."""
    before = list(launches())
    launch(1)
    return [after - now for after, now in zip(launches(), before, strict=True)]


def test_the_fastest_launchable_heuristic_is_chosen(library):
    """Algorithms are timed in graphs, since a single launch takes at least the host's launch time."""
    refused = ctypes.c_int.in_dll(library, "refused")
    refused.value = 0
    problem, stream = Matmul(m=4, n=8, k=16, a="bf16"), Stream()
    baseline = call("cublaslt", problem, stream)[2]
    assert callable(baseline), baseline
    assert algorithms_of(baseline) == [0, 0, 1, 0]
    assert refused.value == 1
    assert stream.captures == 2


@pytest.mark.usefixtures("library")
def test_long_products_are_launched_no_more_often_than_it_takes_to_choose(monkeypatch):
    monkeypatch.setattr(Event, "third", 1.0)
    baseline = call("cublaslt", Matmul(m=4, n=8, k=16, a="bf16"))[2]
    assert callable(baseline), baseline
    replays = 1 + cublas_lt._TIMED
    assert list(launches()) == [2 + replays, 0, 2 + 2 * replays + 1, 0]


@pytest.mark.usefixtures("library")
def test_an_uncapturable_algorithm_is_excluded_and_its_capture_ended():
    problem, stream = Matmul(m=4, n=8, k=16, a="bf16"), Stream()
    stream.refuses = 2
    baseline = call("cublaslt", problem, stream)[2]
    assert callable(baseline), baseline
    assert algorithms_of(baseline) == [1, 0, 0, 0]
    assert stream.before is None


def test_each_copy_has_its_own_scales(library):
    problem = Matmul(m=4, n=4, k=32, a="e4m3", scale="tensor")
    _, arrays = operands(problem)
    arrays[1]["scale_a"] = (arrays[1]["scale_a"] * np.float32(2.0)).view(OnDevice)
    baseline = baseline_call("library", CUPY, Stream(), problem, arrays, 0)
    baseline(1)
    baseline(0)
    first, second = (problem.out_dtype.load(np.asarray(a["out"])) for a in arrays)
    assert np.array_equal(second, 2.0 * first) and first.any()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (Matmul(4, 4, 32, a="e4m3", order_b="row"), "cuBLASLt returned status 15"),
        (Matmul(4, 4, 32, a="e5m2"), "cuBLASLt returned status 15"),
        (Matmul(128, 128, 128, a="e4m3", scale="block"), "does not multiply e4m3 with scale=block and out=bf16"),
        (Matmul(4, 4, 32, a="i8", scale="tensor"), "does not multiply i8 with scale=tensor and out=bf16"),
        (Matmul(4, 4, 32, a="e4m3", epilogue="bias"), "the library cannot compute an epilogue in the same kernel"),
    ],
)
def test_unsupported_products_have_a_reason(problem, why):
    assert why in call("library", problem)[2]


def test_a_missing_cublas_lt_is_reported_with_its_installation(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.setattr(cublas_lt, "_SONAMES", ("libno-such-cublasLt.so.1",))
    cublas_lt._library.cache_clear()
    try:
        with pytest.raises(CublasError, match=r"was not found.*pip install nvidia-cublas"):
            cublas_lt.lt_multiplier(CUPY, Stream(), Gemm(4, 4, 4, 1, "e4m3", "bf16", b_transposed=True))
    finally:
        cublas_lt._library.cache_clear()


def test_the_real_library_takes_every_attribute(monkeypatch):
    """Without a GPU, only descriptors and layouts can be created and filled. A handle and algorithms need a GPU."""
    cublas_lt._library.cache_clear()
    try:
        cublas_lt._library()
    except CublasError:
        pytest.skip("cuBLASLt is not installed")
    monkeypatch.setattr(cublas_lt, "_handle", lambda cp, stream: (ctypes.c_void_p(), SimpleNamespace(ptr=4096)))
    for element, out, scale, in_f16 in (
        ("e4m3", "bf16", "row_column", False),
        ("e4m3", "f32", "tensor", False),
        ("i8", "i32", "none", False),
        ("f16", "f16", "none", True),
    ):
        gemm = Gemm(64, 128, 256, 2, element, out, b_transposed=True, scale=scale, in_f16=in_f16)
        multiply = cublas_lt.lt_multiplier(CUPY, Stream(), gemm)
        pointers = (4096, 8192, 12288) + ((256, 512) if scale != "none" else ())
        with pytest.raises(CublasError, match="returned status"):  # the call fails only because the handle is null
            multiply(*pointers)
    cublas_lt._library.cache_clear()
