// grid (3, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  // #iree_gpu.lowering_config<{expand_dims = [0, 0, 0, 4], lane_basis = [[1, 8, 4, 1], [0, 1, 2, 3]], partial_reduction = [0, 0, 4, 0], subgroup_basis = [[1, 1, 1, 1], [0, 1, 2, 3]], thread = [0, 0, 1, 4], workgroup = [6, 16, 0, 0]}>
  using T = autosched::bf16;
  using Out = autosched::bf16;
  static constexpr int m = 6;
  static constexpr int n = 37;
  static constexpr int k = 333;
  static constexpr int workgroup_m = 6;
  static constexpr int workgroup_n = 16;
  static constexpr int thread = 4;
  static constexpr int lane_basis_n = 8;
  static constexpr int lane_basis_k = 4;
  static constexpr int subgroup_basis_n = 1;
  static constexpr int subgroup_basis_k = 1;
  static constexpr int partial_reduction = 16;
  static constexpr int k_unroll = 4;
  static constexpr int split_k = 1;
  static constexpr int accumulators = 4;
  static constexpr int access = 1;
  static constexpr int shared_bytes = 0;
  static constexpr bool mma = true;
  static constexpr bool expand_dims = true;
  static constexpr bool x_shared = false;
  static constexpr autosched::LoadHint w_cache = autosched::LoadHint::no_allocate;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_matvec(const autosched::bf16* __restrict__ x, const autosched::bf16* __restrict__ w, autosched::bf16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}
