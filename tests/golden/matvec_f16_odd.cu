// grid (3, 1, 1), block (32, 1, 1), 768 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  // #iree_gpu.lowering_config<{expand_dims = [0, 0, 0, 4], lane_basis = [[1, 4, 8, 1], [0, 1, 2, 3]], partial_reduction = [0, 0, 16, 0], subgroup_basis = [[1, 1, 1, 1], [0, 1, 2, 3]], thread = [0, 0, 1, 4], workgroup = [1, 4, 0, 0]}>
  using T = autosched::f16;
  using Out = autosched::f16;
  static constexpr int m = 1;
  static constexpr int n = 9;
  static constexpr int k = 333;
  static constexpr int workgroup_m = 1;
  static constexpr int workgroup_n = 4;
  static constexpr int thread = 4;
  static constexpr int lane_basis_n = 4;
  static constexpr int lane_basis_k = 8;
  static constexpr int subgroup_basis_n = 1;
  static constexpr int subgroup_basis_k = 1;
  static constexpr int partial_reduction = 64;
  static constexpr int k_unroll = 1;
  static constexpr int split_k = 1;
  static constexpr int accumulators = 2;
  static constexpr int access = 1;
  static constexpr int shared_bytes = 768;
  static constexpr bool mma = false;
  static constexpr bool expand_dims = true;
  static constexpr bool x_shared = true;
  static constexpr autosched::LoadHint w_cache = autosched::LoadHint::no_allocate_l2_256b;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_matvec(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ w, autosched::f16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}
