// grid (9, 1, 1), block (64, 1, 1), 64 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  // #iree_gpu.lowering_config<{expand_dims = [0, 0, 0, 8], lane_basis = [[1, 2, 16, 1], [0, 1, 2, 3]], partial_reduction = [0, 0, 16, 0], subgroup_basis = [[1, 2, 1, 1], [0, 1, 2, 3]], thread = [0, 0, 1, 8], workgroup = [2, 8, 0, 0]}>
  using T = autosched::f16;
  using Out = float;
  static constexpr int m = 2;
  static constexpr int n = 19;
  static constexpr int k = 1000;
  static constexpr int workgroup_m = 2;
  static constexpr int workgroup_n = 8;
  static constexpr int thread = 8;
  static constexpr int lane_basis_n = 2;
  static constexpr int lane_basis_k = 16;
  static constexpr int subgroup_basis_n = 2;
  static constexpr int subgroup_basis_k = 1;
  static constexpr int partial_reduction = 128;
  static constexpr int k_unroll = 2;
  static constexpr int split_k = 3;
  static constexpr int accumulators = 4;
  static constexpr int access = 8;
  static constexpr int shared_bytes = 64;
  static constexpr bool mma = false;
  static constexpr bool expand_dims = true;
  static constexpr bool x_shared = false;
  static constexpr autosched::LoadHint w_cache = autosched::LoadHint::evict_first;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_matvec(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ w, float* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::matvec<Config>(x, w, out, partials, counters);
}
