// grid (16, 1, 1), block (128, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = float;
  using Out = float;
  using Op = autosched::ReduceMax;
  static constexpr int length = 5000;
  static constexpr int inner = 1;
  static constexpr int kept_extent = 3;
  static constexpr int lanes = 16;
  static constexpr int subgroups = 4;
  static constexpr int kept_subgroups = 1;
  static constexpr int batch = 1;
  static constexpr int vector = 4;
  static constexpr int unroll = 2;
  static constexpr int split = 8;
  static constexpr int kept_tile = 2;
  static constexpr int chunk = 632;
  static constexpr int combine_at = 16;
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
autosched_row_reduction(const float* __restrict__ x, float* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, partials, counters);
}
