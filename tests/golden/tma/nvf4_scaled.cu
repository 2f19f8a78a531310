// grid (16, 1, 1), block (288, 1, 1), 49184 bytes of dynamic shared memory
#include <autosched/intrinsics/mma_block_scaled.cuh>
#include <autosched/kernels/tma_matmul.cuh>

struct Config {
  using T = autosched::e2m1x2;
  using Out = autosched::bf16;
  using Intrinsic = autosched::MmaBlockScaled<autosched::e2m1x2, 4>;
  using LayoutA = autosched::BoxedLayout<128, 128, false, 128, autosched::Swizzle<3, 4, 3>>;
  using LayoutB = autosched::BoxedLayout<128, 64, true, 128, autosched::Swizzle<3, 4, 3>>;
  static constexpr int m = 256;
  static constexpr int n = 256;
  static constexpr int k = 512;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr autosched::Choice scale_order = "row";
  static constexpr int scale_blocks = 64;
  static constexpr autosched::Choice access_a = "rows";
  static constexpr int access_vector_a = 16;
  static constexpr int leading_dimension_a = 0;
  static constexpr autosched::Choice access_b = "rows";
  static constexpr int access_vector_b = 16;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 128;
  static constexpr autosched::Choice intrinsic = "mma_m16n8k64_nvf4";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 4;
  static constexpr int sg_data_m = 64;
  static constexpr int sg_data_n = 16;
  static constexpr int swizzle_a = 128;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 2;
  static constexpr int fragment_buffers = 2;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 2;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 2;
  static constexpr int tiles_n = 4;
  static constexpr int tiles_k = 4;
  static constexpr int tiles_of_split = 2;
  static constexpr int blocks = 16;
  static constexpr int launched_blocks = 16;
  static constexpr int threads = 288;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 8192;
  static constexpr int stage_bytes = 24576;
  static constexpr int epilogue_line = 24;
  static constexpr int epilogue_bytes = 6144;
  static constexpr int shared_bytes = 49184;
  static constexpr int accumulators = 32;
  static constexpr int fragments_m = 4;
  static constexpr int fragments_n = 2;
  static constexpr int registers = 96;
};

extern "C" __global__ void __launch_bounds__(288, 1)
autosched_tma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, const unsigned char* __restrict__ block_scale_a, const unsigned char* __restrict__ block_scale_b, autosched::bf16* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters, int raster) {
  autosched::tma_matmul<Config>(a_map, b_map, nullptr, nullptr, nullptr, out, partials, counters, raster, block_scale_a, block_scale_b);
}
