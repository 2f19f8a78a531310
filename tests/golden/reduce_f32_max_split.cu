// grid (16, 1, 1), block (128, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = float;
  using Out = float;
  using Op = autosched::ReduceMax;
  static constexpr int length = 5000;
  static constexpr int inner = 1;
  static constexpr int parallel_extent = 3;
  static constexpr bool reduces_contiguous = true;
  static constexpr bool normalizes = false;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr float eps = 0.0f;
  static constexpr int lanes_k = 16;
  static constexpr int subgroups_k = 4;
  static constexpr int subgroups_m = 1;
  static constexpr int batch = 1;
  static constexpr int vector_x = 4;
  static constexpr autosched::Choice peel = "no";
  static constexpr int unroll = 2;
  static constexpr int split_k = 8;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "reload";
  static constexpr autosched::Choice passes = "one";
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr int threads = 128;
  static constexpr int parallel_tile = 2;
  static constexpr int step = 512;
  static constexpr int span = 5000;
  static constexpr int chunk = 632;
  static constexpr int steps = 2;
  static constexpr int vectors = 4;
  static constexpr int states = 1;
  static constexpr int combine_bytes = 32;
  static constexpr int combine_at = 16;
  static constexpr int cluster_at = 48;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 128;
  static constexpr int staging_bytes = 0;
  static constexpr int shared_bytes = 128;
  static constexpr int registers = 31;
  static constexpr int tiles = 2;
  static constexpr int blocks = 16;
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_row_reduction(const float* __restrict__ x, float* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, partials, counters);
}
