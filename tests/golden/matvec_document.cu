// grid (13312, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  // #iree_gpu.lowering_config<{lane_basis = [[1, 1, 32], [0, 1, 2]], partial_reduction = [0, 0, 256], subgroup_basis = [[1, 1, 1], [0, 1, 2]], thread = [0, 0, 8], workgroup = [2, 1, 0]}>
  using T = autosched::f16;
  using Out = float;
  static constexpr int m = 4;
  static constexpr int n = 6656;
  static constexpr int k = 16384;
  static constexpr int workgroup_m = 2;
  static constexpr int workgroup_n = 1;
  static constexpr int thread = 8;
  static constexpr int lane_basis_n = 1;
  static constexpr int lane_basis_k = 32;
  static constexpr int subgroup_basis_n = 1;
  static constexpr int subgroup_basis_k = 1;
  static constexpr int partial_reduction = 256;
  static constexpr int k_unroll = 1;
  static constexpr int split_k = 1;
  static constexpr int accumulators = 16;
  static constexpr int access = 8;
  static constexpr int shared_bytes = 0;
  static constexpr bool mma = false;
  static constexpr bool expand_dims = false;
  static constexpr bool x_shared = false;
  static constexpr autosched::LoadHint w_cache = autosched::LoadHint::none;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_matvec(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ w, float* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}
