// grid (3, 1, 1), block (64, 1, 1), 128 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  using Op = autosched::SoftmaxTwoPasses;
  static constexpr int length = 773;
  static constexpr int inner = 1;
  static constexpr int parallel_extent = 5;
  static constexpr bool reduces_contiguous = true;
  static constexpr bool normalizes = true;
  static constexpr bool has_weight = false;
  static constexpr bool has_bias = false;
  static constexpr float eps = 0.0f;
  static constexpr int lanes_k = 32;
  static constexpr int subgroups_k = 2;
  static constexpr int subgroups_m = 1;
  static constexpr int batch = 2;
  static constexpr int vector_x = 8;
  static constexpr autosched::Choice peel = "yes";
  static constexpr int unroll = 1;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "registers";
  static constexpr autosched::Choice passes = "two";
  static constexpr autosched::Choice cache_hint_x = "evict_first";
  static constexpr autosched::Choice cache_hint_out = "streaming";
  static constexpr int min_blocks = 2;
  static constexpr int threads = 64;
  static constexpr int parallel_tile = 2;
  static constexpr int step = 512;
  static constexpr int span = 780;
  static constexpr int chunk = 780;
  static constexpr int steps = 2;
  static constexpr int vectors = 4;
  static constexpr int states = 2;
  static constexpr int combine_bytes = 32;
  static constexpr int combine_at = 0;
  static constexpr int cluster_at = 32;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 128;
  static constexpr int staging_bytes = 0;
  static constexpr int shared_bytes = 128;
  static constexpr int registers = 44;
  static constexpr int tiles = 3;
  static constexpr int blocks = 3;
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_row_reduction(const autosched::f16* __restrict__ x, float* __restrict__ out) {
  autosched::row_reduction<Config>(x, nullptr, nullptr, out, nullptr, nullptr);
}
