"""Kernels with CUB from the package nvidia-cuda-cccl, newer than the toolkit's CUB, are correct without findings."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched
from measurements.compiler.nvrtc import cuda_include_folders

PACKAGE = "nvidia-cuda-cccl"
pytestmark = [
    needs_nvrtc,
    needs_compiler,
    pytest.mark.nightly,
    needs_cuda_headers,
]
X = np.random.default_rng(3).integers(0, 8, 256).astype(np.int32)
SUMS = """
#include <cub/block/block_reduce.cuh>
#include <cub/version.cuh>
template <cub::BlockReduceAlgorithm A> __device__ int sum(int value) {
  using Reduce = cub::BlockReduce<int, 128, A>;
  __shared__ typename Reduce::TempStorage memory;
  return Reduce(memory).Sum(value);
}
extern "C" __global__ void k(int* sums, int* version, const int* x) {
  int value = x[threadIdx.x] + x[threadIdx.x + 128];
  int shuffled = sum<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(value);
  int raked = sum<cub::BLOCK_REDUCE_RAKING>(value);
  if (threadIdx.x == 0) sums[0] = shuffled, sums[1] = raked, version[0] = CUB_VERSION;
}"""
HISTOGRAM = """
#include <cub/block/block_histogram.cuh>
template <cub::BlockHistogramAlgorithm A> __device__ void count(int* bins, const int* x) {
  using Histogram = cub::BlockHistogram<unsigned char, 128, 2, 8, A>;
  __shared__ typename Histogram::TempStorage memory;
  __shared__ unsigned counts[8];
  unsigned char values[2] = {(unsigned char)x[threadIdx.x], (unsigned char)x[threadIdx.x + 128]};
  Histogram(memory).Histogram(values, counts);
  __syncthreads();
  if (threadIdx.x < 8) bins[threadIdx.x] = counts[threadIdx.x];
}
extern "C" __global__ void k(int* atomic, int* sorted, const int* x) {
  count<cub::BLOCK_HISTO_ATOMIC>(atomic, x);
  count<cub::BLOCK_HISTO_SORT>(sorted, x);
}"""
NEIGHBOURS = """
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_shuffle.cuh>
struct Minus { __device__ int operator()(int a, int b) const { return a - b; } };
struct Differs { __device__ bool operator()(int a, int b) const { return a != b; } };
extern "C" __global__ void k(int* differences, int* heads, int* next, const int* x) {
  using Difference = cub::BlockAdjacentDifference<int, 128>;
  using Heads = cub::BlockDiscontinuity<int, 128>;
  using Shuffle = cub::BlockShuffle<int, 128>;
  __shared__ typename Difference::TempStorage difference;
  __shared__ typename Heads::TempStorage discontinuity;
  __shared__ typename Shuffle::TempStorage shuffle;
  int value[2] = {x[2 * threadIdx.x], x[2 * threadIdx.x + 1]}, out[2], flags[2], up[2];
  Difference(difference).SubtractLeft(value, out, Minus());
  Heads(discontinuity).FlagHeads(flags, value, Differs());
  Shuffle(shuffle).Up(value, up);
  for (int j = 0; j < 2; ++j) {
    differences[2 * threadIdx.x + j] = out[j];
    heads[2 * threadIdx.x + j] = flags[j];
    next[2 * threadIdx.x + j] = threadIdx.x + j == 0 ? 0 : up[j];
  }
}"""


@pytest.fixture(autouse=True)
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the package's headers, which replace the toolkit's headers."""
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed: pip install {PACKAGE}")
    (header,) = [file for file in files if file.as_posix().endswith("/cub/cub.cuh")]
    cccl = Path(str(header.locate())).parents[1]
    folder = tmp_path / "include"
    folder.mkdir()
    for entry in Path(cuda_include_folders()[0]).iterdir():
        if entry.name != "cccl":
            (folder / entry.name).symlink_to(entry)
    (folder / "cccl").symlink_to(cccl)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    return cccl


def run(source: str, *outputs: Any) -> Any:
    launch = autosched.emulate(
        source, kernel="k", arguments=[*outputs, X], grid=1, block=128, outputs=range(len(outputs))
    )
    assert launch.ok, launch.reason
    return launch.arrays


def test_sums_of_a_block(include: Path) -> None:
    sums, version, _ = run(SUMS, np.zeros(2, np.int32), np.zeros(1, np.int32))
    np.testing.assert_array_equal(sums, X.sum())
    expected = re.search(r"#define CUB_VERSION (\d+)", (include / "cub/version.cuh").read_text())
    assert expected is not None and version[0] == int(expected[1])


def test_a_histogram_of_a_block() -> None:
    atomic, by_sorting, _ = run(HISTOGRAM, np.zeros(8, np.int32), np.zeros(8, np.int32))
    np.testing.assert_array_equal(atomic, np.bincount(X, minlength=8))
    np.testing.assert_array_equal(by_sorting, np.bincount(X, minlength=8))


def test_neighbours_in_a_block() -> None:
    differences, heads, following, _ = run(NEIGHBOURS, *(np.zeros_like(X) for _ in range(3)))
    np.testing.assert_array_equal(differences, np.concatenate([X[:1], np.diff(X)]))
    np.testing.assert_array_equal(heads, np.concatenate([[1], np.diff(X) != 0]))
    np.testing.assert_array_equal(following[1:], X[:-1])
