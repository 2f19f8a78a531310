// grid (2, 1, 1), block (64, 1, 1), 5120 bytes of dynamic shared memory
#include <autosched/kernels/row_reduction.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::bf16;
  using Op = autosched::LayerNormOnePass;
  static constexpr int length = 515;
  static constexpr int inner = 1;
  static constexpr int parallel_extent = 6;
  static constexpr bool reduces_contiguous = true;
  static constexpr bool normalizes = true;
  static constexpr bool has_weight = true;
  static constexpr bool has_bias = true;
  static constexpr float eps = 1e-05f;
  static constexpr int lanes_k = 16;
  static constexpr int subgroups_k = 1;
  static constexpr int subgroups_m = 2;
  static constexpr int batch = 1;
  static constexpr int vector_x = 4;
  static constexpr autosched::Choice peel = "yes";
  static constexpr int unroll = 2;
  static constexpr int split_k = 1;
  static constexpr autosched::Choice finish = "last_block";
  static constexpr autosched::Choice row_staging = "shared";
  static constexpr autosched::Choice passes = "one";
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "streaming";
  static constexpr int min_blocks = 2;
  static constexpr int threads = 64;
  static constexpr int parallel_tile = 4;
  static constexpr int step = 128;
  static constexpr int span = 518;
  static constexpr int chunk = 518;
  static constexpr int steps = 5;
  static constexpr int vectors = 10;
  static constexpr int states = 1;
  static constexpr int combine_bytes = 0;
  static constexpr int combine_at = 0;
  static constexpr int cluster_at = 0;
  static constexpr int cluster_bytes = 0;
  static constexpr int staging_at = 0;
  static constexpr int staging_bytes = 5120;
  static constexpr int shared_bytes = 5120;
  static constexpr int registers = 29;
  static constexpr int tiles = 2;
  static constexpr int blocks = 2;
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_row_reduction(const autosched::bf16* __restrict__ x, const autosched::bf16* __restrict__ weight, const autosched::bf16* __restrict__ bias, autosched::bf16* __restrict__ out) {
  autosched::row_reduction<Config>(x, weight, bias, out, nullptr, nullptr);
}
