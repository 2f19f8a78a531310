// Enumerates the parts of tiles that each block of a tcgen05_matmul computes, to verify launches that are too large to
// be emulated. With launch_control, it only enumerates the first tile of each block.
#pragma once
#include <autosched/kernels/matmul/tell_parts.cuh>
#include <autosched/kernels/tcgen05_matmul/plan.cuh>

namespace autosched {

template <class Config, int Most>
__device__ __forceinline__ void tcgen05_matmul_walk(unsigned* parts, int raster) {
  using Plan = Tcgen05Plan<Config>;
  using Work = typename Plan::Work;
  tell_parts<Most>(parts, [raster](const auto& tell) {
    const LaunchRaster order{raster};
    if (Plan::rank() != 0) return;  // both blocks of a pair compute the same tiles
    const auto tell_work = [&](const Work& work) { tell(work.batch, work.m0, work.n0, work.first, work.tiles); };
    if constexpr (Plan::asks) {
      tell_work(Work(int(blockIdx.x) / Plan::pair, order));
    } else {
      Plan::template for_each_work<Plan::Role::copies>(0, order, tell_work);
    }
  });
}

}  // namespace autosched
