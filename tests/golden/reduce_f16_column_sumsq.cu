// grid (1, 1, 1), block (256, 1, 1), 8192 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = autosched::f16;
  using Op = autosched::ReduceSum<true, false>;
  static constexpr int length = 400;
  static constexpr int inner = 40;
  static constexpr int kept_extent = 40;
  static constexpr int lanes = 1;
  static constexpr int subgroups = 8;
  static constexpr int kept_subgroups = 1;
  static constexpr int batch = 1;
  static constexpr int vector = 8;
  static constexpr int unroll = 4;
  static constexpr int split = 1;
  static constexpr int kept_tile = 256;
  static constexpr int chunk = 400;
  static constexpr int combine_at = 0;
  static constexpr int keep_at = 8192;
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

extern "C" __global__ void __launch_bounds__(256, 1)
autosched_row_reduction(const autosched::f16* __restrict__ x, autosched::f16* __restrict__ out) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, nullptr, nullptr);
}
