// grid (16, 1, 1), block (64, 1, 1), 256 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = float;
  using Out = unsigned;
  using Op = autosched::ReduceArgMax;
  static constexpr int length = 301;
  static constexpr int inner = 30;
  static constexpr int kept_extent = 30;
  static constexpr int lanes = 8;
  static constexpr int subgroups = 2;
  static constexpr int kept_subgroups = 1;
  static constexpr int batch = 1;
  static constexpr int vector = 2;
  static constexpr int unroll = 2;
  static constexpr int split = 4;
  static constexpr int kept_tile = 8;
  static constexpr int chunk = 76;
  static constexpr int combine_at = 16;
  static constexpr int keep_at = 256;
  static constexpr bool along = false;
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

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_row_reduction(const float* __restrict__ x, unsigned* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, partials, counters);
}
