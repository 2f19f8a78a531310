// grid (128, 1, 1), block (384, 1, 1), 213072 bytes of dynamic shared memory
#include <autosched/kernels/wgmma_matmul.cuh>

struct Config {
  using T = autosched::bf16;
  using Sum = float;
  using Out = autosched::bf16;
  static constexpr int m = 4096;
  static constexpr int n = 4096;
  static constexpr int k = 4096;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr bool transposed = false;
  static constexpr int access_a = 0;
  static constexpr int access_b = 0;
  static constexpr bool several_tiles = true;
  static constexpr int stream_k_blocks = 0;
  static constexpr bool hilbert = false;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 256;
  static constexpr int tile_k = 64;
  static constexpr int consumer_warpgroups = 2;
  static constexpr int swizzle_a = 128;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 4;
  static constexpr int in_flight = 1;
  static constexpr autosched::Choice a_operand_source = "shared";
  static constexpr autosched::Choice copy_a = "tma";
  static constexpr autosched::Choice copy_b = "tma";
  static constexpr int producer_registers = 40;
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 1;
  static constexpr int store_buffers = 1;
  static constexpr int ping_pong = 0;
  static constexpr int stream_k = 0;
  static constexpr int cluster_m = 2;
  static constexpr int cluster_n = 1;
  static constexpr int tiles_m = 32;
  static constexpr int tiles_n = 16;
  static constexpr int tiles_k = 64;
  static constexpr int tiles_of_split = 64;
  static constexpr int blocks = 512;
  static constexpr int threads = 384;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 32768;
  static constexpr int stage_bytes = 49152;
  static constexpr int store_line = 128;
  static constexpr int store_bytes = 16384;
  static constexpr int ends_bytes = 0;
  static constexpr int shared_bytes = 213072;
  static constexpr int accumulators = 128;
  static constexpr int consumer_registers = 232;
  static constexpr int registers = 168;
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
autosched_wgmma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, const __grid_constant__ autosched::ptx::TensorMap out_map, int raster, unsigned long long evict_a, unsigned long long evict_b) {
  autosched::wgmma_matmul<Config>(a_map, b_map, nullptr, nullptr, nullptr, nullptr, &out_map, nullptr, nullptr, raster, evict_a, evict_b);
}
