// grid (6, 1, 1), block (128, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  using Op = autosched::LayerNormTwoPasses;
  static constexpr int length = 1030;
  static constexpr int inner = 1;
  static constexpr int kept_extent = 11;
  static constexpr int lanes = 32;
  static constexpr int subgroups = 4;
  static constexpr int kept_subgroups = 1;
  static constexpr int batch = 2;
  static constexpr int vector = 2;
  static constexpr int unroll = 2;
  static constexpr int split = 1;
  static constexpr int kept_tile = 2;
  static constexpr int chunk = 1030;
  static constexpr int combine_at = 0;
  static constexpr int keep_at = 128;
  static constexpr bool along = true;
  static constexpr bool normalizes = true;
  static constexpr bool has_weight = true;
  static constexpr bool has_bias = true;
  static constexpr bool peel = false;
  static constexpr float eps = 1e-05f;
  static constexpr autosched::Keep keep = autosched::Keep::reload;
  static constexpr autosched::Finish finish = autosched::Finish::last_block;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::no_allocate;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::none;
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_row_reduction(const autosched::f16* __restrict__ x, const autosched::f16* __restrict__ weight, const autosched::f16* __restrict__ bias, float* __restrict__ out) {
  autosched::row_reduction<Config>(x, weight, bias, out, nullptr, nullptr);
}
