// grid (10, 1, 1), block (32, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = unsigned;
  using Op = autosched::ReduceArgMax;
  static constexpr int length = 19;
  static constexpr int inner = 1;
  static constexpr int parallel_extent = 40;
  static constexpr bool reduces_contiguous = true;
  static constexpr bool normalizes = false;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr float eps = 0.0f;
  static constexpr int lanes_k = 4;
  static constexpr int subgroups_k = 1;
  static constexpr int subgroups_m = 1;
  static constexpr int batch = 1;
  static constexpr int vector_x = 8;
  static constexpr autosched::Choice peel = "yes";
  static constexpr int unroll = 1;
  static constexpr int split_k = 2;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "reload";
  static constexpr autosched::Choice passes = "one";
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr int threads = 32;
  static constexpr int parallel_tile = 8;
  static constexpr int step = 32;
  static constexpr int span = 26;
  static constexpr int chunk = 16;
  static constexpr int steps = 1;
  static constexpr int vectors = 1;
  static constexpr int states = 1;
  static constexpr int combine_bytes = 0;
  static constexpr int combine_at = 16;
  static constexpr int cluster_at = 16;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 128;
  static constexpr int staging_bytes = 0;
  static constexpr int shared_bytes = 128;
  static constexpr int registers = 28;
  static constexpr int tiles = 5;
  static constexpr int blocks = 10;
};

extern "C" __global__ void __launch_bounds__(32, 1)
autosched_row_reduction(const autosched::f16* __restrict__ x, unsigned* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, partials, counters);
}
