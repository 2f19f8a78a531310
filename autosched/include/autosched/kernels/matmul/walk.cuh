// What every block of a matmul computes, without multiplying: for proofs of launches that are too large to be emulated.
#pragma once
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// Thread 0 of each block tells of each part of a tile that its block computes: matrix, row and column of the first
// element, first k-tile, and how many of these; at most Most parts, each of eight words, of which the first is 1.
template <class C, int Most>
__device__ __forceinline__ void matmul_walk(unsigned* parts) {
  if (threadIdx.x != 0) return;
  unsigned* mine = parts + static_cast<long long>(blockIdx.x) * Most * 8;
  int told = 0;
  const auto tell = [&](const MatmulWork<C>& work) {
    if (told++ >= Most) return;
    ptx::st_global(mine, AlignedVector<16>{{1u, unsigned(work.batch), unsigned(work.m0()), unsigned(work.n0())}});
    ptx::st_global(mine + 4, AlignedVector<16>{{unsigned(work.first), unsigned(work.count), 0u, 0u}});
    mine += 8;
  };
  if constexpr (C::stream_k) {
    const unsigned shared = ptx::shared_memory();
    MatmulWork<C>::begin(shared);
#pragma unroll 1
    while (MatmulWork<C>::next(shared).count != 0) {
      MatmulWork<C>::step(shared);
      tell(MatmulWork<C>::now(shared));
    }
  } else {
    tell(MatmulWork<C>::alone());
  }
#pragma unroll 1
  for (; told < Most; ++told, mine += 8) {
    ptx::st_global(mine, AlignedVector<16>{{0u, 0u, 0u, 0u}});
    ptx::st_global(mine + 4, AlignedVector<16>{{0u, 0u, 0u, 0u}});
  }
}

}  // namespace autosched
