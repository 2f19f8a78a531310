"""Correct kernels that use CUB and cooperative groups cause no findings. The headers take seconds to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cuda_headers, needs_nvrtc

import autosched

pytestmark = [
    needs_nvrtc,
    needs_compiler,
    pytest.mark.nightly,
    needs_cuda_headers,
]
N = 512
X = np.random.default_rng(7).integers(-1000, 1000, N).astype(np.int32)
SORT = """
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
extern "C" __global__ void k(int* o, int* p, const int* x) {
  using Merge = cub::BlockMergeSort<int, 128, 4>;
  using Radix = cub::BlockRadixSort<int, 128, 4>;
  __shared__ typename Merge::TempStorage merge;
  __shared__ typename Radix::TempStorage radix;
  int a[4], b[4];
  for (int j = 0; j < 4; ++j) a[j] = b[j] = x[threadIdx.x * 4 + j];
  Merge(merge).Sort(a, Less());
  Radix(radix).SortDescending(b);
  for (int j = 0; j < 4; ++j) o[threadIdx.x * 4 + j] = a[j], p[threadIdx.x * 4 + j] = b[j];
}"""
LOOK_BACK = """
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_scan.cuh>
using Tile = cub::ScanTileState<int>;
using Prefix = cub::TilePrefixCallbackOp<int, cuda::std::plus<>, Tile>;
using Scan = cub::BlockScan<int, 128>;
extern "C" __global__ void k(int* o, const int* x, unsigned long long* states, unsigned* ticket) {
  __shared__ typename Scan::TempStorage scan;
  __shared__ typename Prefix::TempStorage before;
  __shared__ int tile;
  Tile state;
  state.d_tile_descriptors = reinterpret_cast<Tile::TxnWord*>(states);
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
  __syncthreads();
  int v = x[tile * 128 + threadIdx.x], r;
  if (tile == 0) {
    int all;
    Scan(scan).InclusiveSum(v, r, all);
    if (threadIdx.x == 0) state.SetInclusive(0, all);
  } else {
    Prefix prefix(state, before, cuda::std::plus<>{}, tile);
    Scan(scan).InclusiveScan(v, r, cuda::std::plus<>{}, prefix);
  }
  o[tile * 128 + threadIdx.x] = r;
}"""
TILES = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(int* o, const int* x) {
  __shared__ cg::block_tile_memory<128> memory;
  auto block = cg::this_thread_block(memory);
  auto pair = cg::tiled_partition<64>(block);
  o[threadIdx.x] = cg::reduce(pair, x[threadIdx.x], cg::plus<int>());
}"""

PARTS_OF_WARPS = """
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_load.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
extern "C" __global__ void k(int* o, int* p, int* q, const int* x) {
  constexpr int L = LANES;
  using Load = cub::WarpLoad<int, 4, cub::WARP_LOAD_TRANSPOSE, L>;
  using Sort = cub::WarpMergeSort<int, 4, L>;
  using Exchange = cub::WarpExchange<int, 4, L>;
  using Scan = cub::WarpScan<int, L>;
  using Reduce = cub::WarpReduce<int, L>;
  __shared__ typename Load::TempStorage load[128 / L];
  __shared__ typename Sort::TempStorage sort[128 / L];
  __shared__ typename Exchange::TempStorage exchange[128 / L];
  __shared__ typename Scan::TempStorage scan[128 / L];
  __shared__ typename Reduce::TempStorage sum[128 / L];
  int g = threadIdx.x / L, a[4], s;
  Load(load[g]).Load(x + g * 4 * L, a);
  Sort(sort[g]).Sort(a, Less());
  for (int j = 0; j < 4; ++j) o[threadIdx.x * 4 + j] = a[j];
  Exchange(exchange[g]).BlockedToStriped(a, a);
  Scan(scan[g]).InclusiveSum(a[0], s);
  p[threadIdx.x] = s;
  s = Reduce(sum[g]).Sum(a[3]);
  if (threadIdx.x % L == 0) q[g] = s;
}"""


def run(source: str, *arguments: Any, grid: int = 1, outputs: tuple[int, ...] = (0,)) -> Any:
    emulation = autosched.emulate(source, kernel="k", arguments=arguments, grid=grid, block=128, outputs=outputs)
    assert emulation.ok, emulation.reason
    return emulation.arrays


def test_sorts_of_a_block() -> None:
    up, down, _ = run(SORT, np.zeros_like(X), np.zeros_like(X), X, outputs=(0, 1))
    np.testing.assert_array_equal(up, np.sort(X))
    np.testing.assert_array_equal(down, np.sort(X)[::-1])


def test_a_scan_whose_blocks_look_back() -> None:
    o, *_ = run(LOOK_BACK, np.zeros_like(X), X, np.zeros(64, np.uint64), np.zeros(1, np.uint32), grid=4)
    np.testing.assert_array_equal(o, np.cumsum(X))


def test_tiles_of_two_warps() -> None:
    o, _ = run(TILES, np.zeros(128, np.int32), X)
    np.testing.assert_array_equal(o, np.repeat(X[:128].reshape(2, 64).sum(1), 64))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_parts_of_warps_that_synchronize_separately(lanes: int) -> None:
    zeros = (np.zeros_like(X), np.zeros(128, np.int32), np.zeros(128 // lanes, np.int32))
    o, p, q, _ = run(PARTS_OF_WARPS.replace("LANES", str(lanes)), *zeros, X, outputs=(0, 1, 2))
    rows = np.sort(X.reshape(-1, 4 * lanes), axis=1)
    np.testing.assert_array_equal(o.reshape(rows.shape), rows)
    np.testing.assert_array_equal(p.reshape(-1, lanes), np.cumsum(rows[:, :lanes], axis=1))
    np.testing.assert_array_equal(q, rows[:, 3 * lanes :].sum(1))
