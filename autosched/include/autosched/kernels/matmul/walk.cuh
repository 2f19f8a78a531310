// Enumerates the parts of tiles that each block of a matmul computes, to verify launches that are too large to be
// emulated.
#pragma once
#include <autosched/kernels/matmul/tell_parts.cuh>
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class C, int Most>
__device__ __forceinline__ void matmul_walk(unsigned* parts, int raster) {
  const LaunchRaster order{raster};
  tell_parts<Most>(parts, [order](const auto& tell) {
    const auto tell_work = [&](const MatmulWork<C>& work) {
      tell(work.batch, work.m0(), work.n0(), work.first, work.count);
    };
    if constexpr (C::stream_k) {
      const unsigned shared = ptx::shared_memory();
      MatmulWork<C>::begin(shared);
#pragma unroll 1
      while (MatmulWork<C>::next(shared, order).count != 0) {
        MatmulWork<C>::step(shared);
        tell_work(MatmulWork<C>::now(shared, order));
      }
    } else {
      tell_work(MatmulWork<C>::alone(order));
    }
  });
}

}  // namespace autosched
