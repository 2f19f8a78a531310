// grid (1, 1, 1), block (128, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = unsigned;
  using Op = autosched::ReduceArgMax;
  static constexpr int length = 900;
  static constexpr int inner = 1;
  static constexpr int kept_extent = 7;
  static constexpr int lanes = 16;
  static constexpr int subgroups = 2;
  static constexpr int kept_subgroups = 2;
  static constexpr int batch = 2;
  static constexpr int vector = 4;
  static constexpr int unroll = 2;
  static constexpr int split = 1;
  static constexpr int kept_tile = 8;
  static constexpr int chunk = 900;
  static constexpr int combine_at = 0;
  static constexpr int keep_at = 128;
  static constexpr bool along = true;
  static constexpr bool normalizes = false;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr bool peel = false;
  static constexpr float eps = 0.0f;
  static constexpr autosched::Keep keep = autosched::Keep::reload;
  static constexpr autosched::Finish finish = autosched::Finish::last_block;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::none;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::none;
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_row_reduction(const autosched::f16* __restrict__ x, unsigned* __restrict__ out) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, nullptr, nullptr);
}
