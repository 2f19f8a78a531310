// grid (118, 1, 1), block (384, 1, 1), 169040 bytes of dynamic shared memory
#include <autosched/kernels/wgmma_matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Sum = float;
  using Out = autosched::f16;
  static constexpr int m = 4095;
  static constexpr int n = 4097;
  static constexpr int k = 4099;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr bool transposed = false;
  static constexpr int access_a = 2;
  static constexpr int access_b = 2;
  static constexpr bool several_tiles = true;
  static constexpr int stream_k_blocks = 0;
  static constexpr bool hilbert = false;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 192;
  static constexpr int tile_k = 64;
  static constexpr int consumer_warpgroups = 2;
  static constexpr int swizzle_a = 128;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 4;
  static constexpr int in_flight = 1;
  static constexpr autosched::Choice a_operand_source = "shared";
  static constexpr autosched::Choice copy_a = "cp.async";
  static constexpr autosched::Choice copy_b = "cp.async";
  static constexpr int producer_registers = 64;
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 1;
  static constexpr int store_buffers = 0;
  static constexpr int ping_pong = 0;
  static constexpr int stream_k = 0;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 1;
  static constexpr int tiles_m = 32;
  static constexpr int tiles_n = 22;
  static constexpr int tiles_k = 65;
  static constexpr int tiles_of_split = 65;
  static constexpr int blocks = 704;
  static constexpr int threads = 384;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 24576;
  static constexpr int stage_bytes = 40960;
  static constexpr int store_line = 128;
  static constexpr int store_bytes = 0;
  static constexpr int ends_bytes = 1280;
  static constexpr int shared_bytes = 169040;
  static constexpr int accumulators = 96;
  static constexpr int consumer_registers = 216;
  static constexpr int registers = 166;
};

extern "C" __global__ void __launch_bounds__(384, 1)
autosched_wgmma_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, autosched::f16* __restrict__ out, int raster, unsigned long long evict_a, unsigned long long evict_b) {
  autosched::wgmma_matmul<Config>(a, b, nullptr, nullptr, nullptr, out, nullptr, nullptr, nullptr, raster, evict_a, evict_b);
}
