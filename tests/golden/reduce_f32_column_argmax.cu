// grid (16, 1, 1), block (64, 1, 1), 256 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = float;
  using Out = unsigned;
  using Op = autosched::ReduceArgMax;
  static constexpr int length = 301;
  static constexpr int inner = 30;
  static constexpr int parallel_extent = 30;
  static constexpr bool reduces_contiguous = false;
  static constexpr bool normalizes = false;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr float eps = 0.0f;
  static constexpr int lanes_k = 8;
  static constexpr int subgroups_k = 2;
  static constexpr int subgroups_m = 1;
  static constexpr int batch = 1;
  static constexpr int vector_x = 2;
  static constexpr autosched::Choice peel = "no";
  static constexpr int unroll = 2;
  static constexpr int split_k = 4;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "reload";
  static constexpr autosched::Choice passes = "one";
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr int threads = 64;
  static constexpr int parallel_tile = 8;
  static constexpr int step = 32;
  static constexpr int span = 301;
  static constexpr int chunk = 76;
  static constexpr int steps = 3;
  static constexpr int vectors = 6;
  static constexpr int states = 2;
  static constexpr int combine_bytes = 128;
  static constexpr int combine_at = 16;
  static constexpr int cluster_at = 144;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 256;
  static constexpr int staging_bytes = 0;
  static constexpr int shared_bytes = 256;
  static constexpr int registers = 30;
  static constexpr int tiles = 4;
  static constexpr int blocks = 16;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_row_reduction(const float* __restrict__ x, unsigned* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, partials, counters);
}
