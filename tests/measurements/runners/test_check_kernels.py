"""The kernels that check a candidate's results and memory accesses run on the host with one thread."""

import math
import re
import subprocess

import numpy as np
import pytest
from needs import cpp_compiler

from measurements.runners.cuda import check_kernels
from search_spaces.hardware.dtypes import SCALAR_DTYPES

HOST = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#define __device__ static
#define __global__
#define __launch_bounds__(x)
static struct { unsigned x, y; } blockIdx, threadIdx, blockDim{1, 1}, gridDim{1, 1};
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static double __shfl_xor_sync(unsigned, double x, int) { return x; }
template <class T> void atomicAdd(T* p, T v) { *p += v; }
template <class T> void atomicMin(T* p, T v) { if (v < *p) *p = v; }
template <class T> void atomicMax(T* p, T v) { if (v > *p) *p = v; }
#define infinity check_infinity
"""

MAIN = r"""
static std::vector<unsigned char> file(const char* name) {
  std::vector<unsigned char> bytes;
  FILE* f = fopen(name, "rb");
  for (int c; (c = fgetc(f)) != EOF;) bytes.push_back(c);
  fclose(f);
  return bytes;
}
int main(int, char** a) {
  auto found = file(a[2]), wanted = file(a[3]), allowed = file(a[4]);
  u64 report[4] = {0, ~0ull, 0, ~0ull};
  if (!strcmp(a[1], "bytes")) {
    const u64 stride = atoll(a[6]);
    for (blockIdx.y = 0; blockIdx.y < found.size() / stride; blockIdx.y++)
      check_bytes(found.data(), wanted.data(), atoll(a[5]), stride, atoi(a[7]), 0xA5, report);
  } else {
    auto f = (const unsigned short*)found.data();
    auto w = (const double*)wanted.data(), l = (const double*)allowed.data();
    const u64 n = wanted.size() / 8;
    if (!strcmp(a[1], "f16")) check_f16(f, w, l, n, report);
    if (!strcmp(a[1], "bf16")) check_bf16(f, w, l, n, report);
    if (!strcmp(a[1], "f32")) check_f32((const float*)f, w, l, n, report);
    if (!strcmp(a[1], "f64")) check_f64((const double*)f, w, l, n, report);
    if (!strcmp(a[1], "i8")) check_i8((const signed char*)f, w, l, n, report);
    if (!strcmp(a[1], "i64")) check_i64((const long long*)f, w, l, n, report);
    if (!strcmp(a[1], "u64")) check_u64((const u64*)f, w, l, n, report);
  }
  printf("%llu %llu %llu %llu\n", report[0], report[1], report[2], report[3]);
}
"""


@pytest.fixture(scope="module")
def host_checks(tmp_path_factory):
    """Return a function that runs a checking kernel as a host program: (kind of check, arrays, numbers) -> report."""
    compiler = cpp_compiler()
    folder = tmp_path_factory.mktemp("checks")
    # Remove inline PTX: the kernel that waits for the host reads a GPU clock, which a host program lacks.
    source = re.sub(r"asm volatile\(.*?\);", ";", check_kernels.KERNEL.source)
    (folder / "checks.cpp").write_text(HOST + source + MAIN)
    command = [compiler, "-std=c++17", "-O1", "-w", "-o", str(folder / "checks"), str(folder / "checks.cpp")]
    subprocess.run(command, check=True)

    def run(kind, actual, expected, allowed, *numbers):
        for name, array in (("found", actual), ("wanted", expected), ("allowed", allowed)):
            (folder / name).write_bytes(np.ascontiguousarray(array).tobytes())
        arguments = [str(folder / "checks"), kind, *(str(folder / n) for n in ("found", "wanted", "allowed"))]
        done = subprocess.run([*arguments, *map(str, numbers)], check=True, capture_output=True, text=True)
        return [int(x) for x in done.stdout.split()]

    return run


def worst(report):
    return float(np.uint64(report[2]).view(np.float64))


def test_the_checking_kernel_reads_every_half_as_numpy_does(host_checks):
    halves = np.arange(65536, dtype=np.uint16)
    values = halves.view(np.float16).astype(np.float64)
    finite = np.isfinite(values)
    report = host_checks("f16", halves, values, np.zeros(65536))
    assert report[0] == (~finite).sum()
    assert report[1] == 0x7C00
    assert worst(report) == math.inf
    assert host_checks("f16", halves[finite], values[finite], np.zeros(finite.sum()))[0] == 0


def test_the_checking_kernel_reads_bf16_and_f32(host_checks):
    values = np.array([1.0, -2.5, 3.0e38, 0.0])
    assert host_checks("f32", values.astype(np.float32), values.astype(np.float32).astype(float), np.zeros(4))[0] == 0
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    exact = (bits.astype(np.uint32) << 16).view(np.float32).astype(float)
    assert host_checks("bf16", bits, exact, np.zeros(4))[0] == 0


@pytest.mark.parametrize("name", ["f64", "i8", "i64", "u64"])
def test_the_checking_kernel_reads_every_other_number(host_checks, name):
    storage = np.dtype(SCALAR_DTYPES[name].storage)
    ends = (-1.5, 1e300) if storage.kind == "f" else (np.iinfo(storage).min, np.iinfo(storage).max)
    stored = np.array([0, 1, *ends], storage)
    assert host_checks(name, stored, stored.astype(float), np.zeros(4))[0] == 0
    assert host_checks(name, stored, stored.astype(float) + np.array([0, 2, 0, 0]), np.ones(4))[:2] == [1, 1]


def test_every_type_has_its_checking_kernel():
    assert set(re.findall(r"^CHECK\((\w+),", check_kernels.KERNEL.source, re.MULTILINE)) == SCALAR_DTYPES.keys()


def test_the_checking_kernel_counts_and_finds_the_first_and_the_worst(host_checks):
    actual = np.float32([1.0, 2.5, 3.0, np.nan, 5.25])
    report = host_checks("f32", actual, np.arange(1.0, 6.0), np.full(5, 0.25))
    assert (report[0], report[1], worst(report)) == (2, 1, math.inf)
    report = host_checks("f32", actual[[0, 1, 2, 4]], np.array([1.0, 2.0, 3.0, 5.0]), np.full(4, 0.25))
    assert (report[0], report[1], worst(report)) == (1, 1, 2.0)


def test_the_checking_kernel_leaves_elements_without_a_finite_tolerance_to_the_host(host_checks):
    actual, expected = np.float32([1.0, 2.0, np.inf, 4.0]), np.array([1.0, 2.5, np.inf, 4.0])
    assert host_checks("f32", actual, expected, np.array([np.inf, np.inf, 1.0, np.nan]))[:2] == [3, 1]


def test_the_checking_kernel_tells_arrays_from_gaps(host_checks):
    slots = np.full((3, 64), 0xA5, np.uint8)
    slots[:, :40] = np.arange(40)
    expected, none = np.arange(40, dtype=np.uint8), 2**64 - 1
    equal, anything, zero = check_kernels.MODE_EQUAL, check_kernels.MODE_ANY, check_kernels.MODE_ZERO
    assert host_checks("bytes", slots, expected, expected, 40, 64, equal) == [0, none, 0, none]
    slots[1, 7] ^= 1
    slots[2, 50] = 0
    assert host_checks("bytes", slots, expected, expected, 40, 64, equal) == [1, 7, 1, 50]
    assert host_checks("bytes", slots, expected, expected, 40, 64, anything) == [0, none, 1, 50]
    assert host_checks("bytes", slots, expected, expected, 40, 64, zero)[0] == 3 * 40 - 3


def test_the_checking_kernels_compile_for_every_architecture(tmp_path):
    from measurements.compiler.nvrtc import NvrtcMissing
    from measurements.compiler.pool import CompileCache, Compiled, CompilePool

    try:
        pool = CompilePool(CompileCache(tmp_path), workers=1)
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    with pool:
        for arch in ("sm_80", "sm_89", "sm_90a"):
            assert isinstance(pool.compile(check_kernels.KERNEL, arch), Compiled)
