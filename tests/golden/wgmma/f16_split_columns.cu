// grid (36, 1, 1), block (160, 1, 1), 57392 bytes of dynamic shared memory
#include <autosched/kernels/wgmma_matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Sum = float;
  using Out = float;
  static constexpr int m = 136;
  static constexpr int n = 131;
  static constexpr int k = 520;
  static constexpr int batch = 2;
  static constexpr autosched::Choice order_a = "col";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "gelu";
  static constexpr bool transposed = false;
  static constexpr int access_a = 0;
  static constexpr int access_b = 0;
  static constexpr bool several_tiles = false;
  static constexpr int stream_k_blocks = 0;
  static constexpr bool hilbert = false;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 48;
  static constexpr int tile_k = 128;
  static constexpr int consumer_warpgroups = 1;
  static constexpr int swizzle_a = 64;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 2;
  static constexpr int in_flight = 0;
  static constexpr autosched::Choice a_operand_source = "shared";
  static constexpr autosched::Choice copy_a = "tma";
  static constexpr autosched::Choice copy_b = "tma";
  static constexpr int producer_registers = 0;
  static constexpr int min_blocks = 2;
  static constexpr int split_k = 2;
  static constexpr int store_buffers = 0;
  static constexpr int ping_pong = 0;
  static constexpr int stream_k = 0;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 1;
  static constexpr int tiles_m = 3;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 5;
  static constexpr int tiles_of_split = 3;
  static constexpr int blocks = 36;
  static constexpr int threads = 160;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 12288;
  static constexpr int stage_bytes = 28672;
  static constexpr int store_line = 64;
  static constexpr int store_bytes = 0;
  static constexpr int ends_bytes = 0;
  static constexpr int shared_bytes = 57392;
  static constexpr int accumulators = 24;
  static constexpr int consumer_registers = 0;
  static constexpr int registers = 66;
};

extern "C" __global__ void __launch_bounds__(160, 2)
autosched_wgmma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, const float* __restrict__ bias, float* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters, int raster, unsigned long long evict_a, unsigned long long evict_b) {
  autosched::wgmma_matmul<Config>(a_map, b_map, nullptr, nullptr, bias, out, nullptr, partials, counters, raster, evict_a, evict_b);
}
