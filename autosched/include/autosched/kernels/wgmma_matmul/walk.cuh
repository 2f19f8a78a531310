// Enumerates the parts of tiles that each block of a wgmma_matmul computes, to verify launches that are too large to be
// emulated.
#pragma once
#include <autosched/kernels/matmul/tell_parts.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>

namespace autosched {

template <class Config, int Most>
__device__ __forceinline__ void wgmma_matmul_walk(unsigned* parts, int raster) {
  using Plan = WgmmaPlan<Config>;
  tell_parts<Most>(parts, [raster](const auto& tell) {
    Plan::for_each_work(LaunchRaster{raster}, [&](const typename Plan::Work& work, int, bool) {
      tell(work.batch, work.m0, work.n0, work.first, work.tiles);
    });
  });
}

}  // namespace autosched
