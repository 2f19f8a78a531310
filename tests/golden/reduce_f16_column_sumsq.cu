// grid (1, 1, 1), block (256, 1, 1), 8192 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = autosched::f16;
  using Op = autosched::ReduceSum<true, false>;
  static constexpr int length = 400;
  static constexpr int inner = 40;
  static constexpr int parallel_extent = 40;
  static constexpr bool reduces_contiguous = false;
  static constexpr bool normalizes = false;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr float eps = 0.0f;
  static constexpr int lanes_k = 1;
  static constexpr int subgroups_k = 8;
  static constexpr int subgroups_m = 1;
  static constexpr int batch = 1;
  static constexpr int vector_x = 8;
  static constexpr autosched::Choice peel = "no";
  static constexpr int unroll = 4;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "reload";
  static constexpr autosched::Choice passes = "one";
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr int threads = 256;
  static constexpr int parallel_tile = 256;
  static constexpr int step = 32;
  static constexpr int span = 400;
  static constexpr int chunk = 400;
  static constexpr int steps = 13;
  static constexpr int vectors = 52;
  static constexpr int states = 8;
  static constexpr int combine_bytes = 8192;
  static constexpr int combine_at = 0;
  static constexpr int cluster_at = 8192;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 8192;
  static constexpr int staging_bytes = 0;
  static constexpr int shared_bytes = 8192;
  static constexpr int registers = 46;
  static constexpr int tiles = 1;
  static constexpr int blocks = 1;
};

extern "C" __global__ void __launch_bounds__(256, 1)
autosched_row_reduction(const autosched::f16* __restrict__ x, autosched::f16* __restrict__ out) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, nullptr, nullptr);
}
