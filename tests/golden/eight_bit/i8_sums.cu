// grid (704, 1, 1), block (384, 1, 1), 163920 bytes of dynamic shared memory
#include <autosched/ptx/wgmma/along_k.cuh>
#include <autosched/kernels/wgmma_matmul.cuh>

struct Config {
  using T = signed char;
  using Sum = int;
  using Out = int;
  static constexpr int m = 4096;
  static constexpr int n = 4224;
  static constexpr int k = 4096;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr bool transposed = false;
  static constexpr int access_a = 0;
  static constexpr int access_b = 0;
  static constexpr bool several_tiles = false;
  static constexpr int stream_k_blocks = 0;
  static constexpr bool hilbert = false;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 192;
  static constexpr int tile_k = 128;
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
  static constexpr int store_buffers = 0;
  static constexpr int ping_pong = 0;
  static constexpr int stream_k = 0;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 1;
  static constexpr int tiles_m = 32;
  static constexpr int tiles_n = 22;
  static constexpr int tiles_k = 32;
  static constexpr int tiles_of_split = 32;
  static constexpr int blocks = 704;
  static constexpr int threads = 384;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 24576;
  static constexpr int stage_bytes = 40960;
  static constexpr int store_line = 128;
  static constexpr int store_bytes = 0;
  static constexpr int ends_bytes = 0;
  static constexpr int shared_bytes = 163920;
  static constexpr int accumulators = 96;
  static constexpr int consumer_registers = 232;
  static constexpr int registers = 168;
};

extern "C" __global__ void __launch_bounds__(384, 1)
autosched_wgmma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, int* __restrict__ out, int raster, unsigned long long evict_a, unsigned long long evict_b) {
  autosched::wgmma_matmul<Config>(a_map, b_map, nullptr, nullptr, nullptr, out, nullptr, nullptr, nullptr, raster, evict_a, evict_b);
}
