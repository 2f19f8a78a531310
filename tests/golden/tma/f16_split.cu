// grid (144, 1, 1), block (160, 1, 1), 36912 bytes of dynamic shared memory
#include <autosched/kernels/tma_matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Out = autosched::f16;
  using Intrinsic = autosched::MmaSync<autosched::f16>;
  using LayoutA = autosched::BoxedLayout<32, 64, true, 32, autosched::Swizzle<2, 3, 3>>;
  using LayoutB = autosched::BoxedLayout<64, 64, true, 64, autosched::Swizzle<3, 3, 3>>;
  static constexpr int m = 256;
  static constexpr int n = 192;
  static constexpr int k = 1024;
  static constexpr int batch = 2;
  static constexpr autosched::Choice order_a = "col";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr autosched::Choice access_a = "trans";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 0;
  static constexpr autosched::Choice access_b = "rows";
  static constexpr int access_vector_b = 8;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 64;
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_f16";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 2;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 16;
  static constexpr int swizzle_a = 64;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 3;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 3;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "inner";
  static constexpr int tiles_m = 8;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 16;
  static constexpr int tiles_of_split = 6;
  static constexpr int blocks = 144;
  static constexpr int launched_blocks = 144;
  static constexpr int threads = 160;
  static constexpr int stage_bytes_a = 4096;
  static constexpr int stage_bytes_b = 8192;
  static constexpr int stage_bytes = 12288;
  static constexpr int epilogue_line = 40;
  static constexpr int epilogue_bytes = 5120;
  static constexpr int shared_bytes = 36912;
  static constexpr int accumulators = 16;
  static constexpr int fragments_m = 1;
  static constexpr int fragments_n = 4;
  static constexpr int registers = 52;
};

extern "C" __global__ void __launch_bounds__(160, 1)
autosched_tma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, autosched::f16* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters, int raster) {
  autosched::tma_matmul<Config>(a_map, b_map, nullptr, nullptr, nullptr, out, partials, counters, raster);
}
