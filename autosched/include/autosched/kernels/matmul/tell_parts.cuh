// Reports which parts of tiles the blocks of a matmul compute, to verify launches that are too large to be emulated.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// Thread 0 of each block reports each part of a tile that its block computes: matrix, row and column of the first
// element, first k-tile, and number of k-tiles. A block reports at most `Most` parts. Each report has eight words. Its
// first word is 1, and unused reports are zero. `walk` is called with a function, which it must call for each part.
template <int Most, class Walk>
__device__ __forceinline__ void tell_parts(unsigned* parts, const Walk& walk) {
  if (threadIdx.x != 0) return;
  unsigned* mine = parts + static_cast<long long>(blockIdx.x) * Most * 8;
  int reported = 0;
  walk([&](int batch, int m0, int n0, int first, int count) {
    if (reported++ >= Most) return;
    ptx::st_global(mine, AlignedVector<16>{{1u, unsigned(batch), unsigned(m0), unsigned(n0)}});
    ptx::st_global(mine + 4, AlignedVector<16>{{unsigned(first), unsigned(count), 0u, 0u}});
    mine += 8;
  });
#pragma unroll 1
  for (; reported < Most; ++reported, mine += 8) {
    ptx::st_global(mine, AlignedVector<16>{{0u, 0u, 0u, 0u}});
    ptx::st_global(mine + 4, AlignedVector<16>{{0u, 0u, 0u, 0u}});
  }
}

}  // namespace autosched
