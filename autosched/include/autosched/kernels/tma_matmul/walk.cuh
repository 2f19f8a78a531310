// Enumerates the parts of tiles that each block of a tma_matmul computes, to verify launches that are too large to be
// emulated.
#pragma once
#include <autosched/kernels/matmul/tell_parts.cuh>
#include <autosched/kernels/matmul/work.cuh>

namespace autosched {

template <class C, int Most>
__device__ __forceinline__ void tma_matmul_walk(unsigned* parts, int raster) {
  tell_parts<Most>(parts, [raster](const auto& tell) {
    MatmulWork<C>::for_each(LaunchRaster{raster}, [&](const MatmulWork<C>& work) {
      tell(work.batch, work.m0(), work.n0(), work.first, work.count);
    });
  });
}

}  // namespace autosched
