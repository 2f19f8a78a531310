// grid (6, 1, 1), block (128, 1, 1), 2688 bytes of dynamic shared memory
#include <autosched/kernels/matvec.cuh>

struct Config {
  // #iree_gpu.lowering_config<{lane_basis = [[1, 4, 8], [0, 1, 2]], partial_reduction = [0, 0, 128], subgroup_basis = [[1, 2, 2], [0, 1, 2]], thread = [0, 0, 4], workgroup = [3, 16, 0]}>
  using T = autosched::bf16;
  using Out = autosched::bf16;
  static constexpr int m = 5;
  static constexpr int n = 37;
  static constexpr int k = 328;
  static constexpr int workgroup_m = 3;
  static constexpr int workgroup_n = 16;
  static constexpr int thread = 4;
  static constexpr int lane_basis_n = 4;
  static constexpr int lane_basis_k = 8;
  static constexpr int subgroup_basis_n = 2;
  static constexpr int subgroup_basis_k = 2;
  static constexpr int partial_reduction = 128;
  static constexpr int k_unroll = 2;
  static constexpr int split_k = 1;
  static constexpr int accumulators = 48;
  static constexpr int access = 4;
  static constexpr int shared_bytes = 2688;
  static constexpr bool mma = false;
  static constexpr bool expand_dims = false;
  static constexpr bool x_shared = true;
  static constexpr autosched::LoadHint w_cache = autosched::LoadHint::no_allocate;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matvec(const autosched::bf16* __restrict__ x, const autosched::bf16* __restrict__ w, autosched::bf16* __restrict__ out) {
  autosched::matvec<Config>(x, w, out, nullptr, nullptr);
}
