// grid (11, 1, 1), block (160, 1, 1), 74784 bytes of dynamic shared memory
#include <autosched/kernels/tma_matmul.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::bf16;
  using Intrinsic = autosched::MmaSync<autosched::bf16>;
  using LayoutA = autosched::BoxedLayout<128, 64, false, 64, autosched::Swizzle<3, 3, 3>>;
  using LayoutB = autosched::BoxedLayout<64, 128, true, 64, autosched::Swizzle<3, 3, 3>>;
  static constexpr int m = 500;
  static constexpr int n = 700;
  static constexpr int k = 520;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr autosched::Choice access_a = "rows";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 0;
  static constexpr autosched::Choice access_b = "rows";
  static constexpr int access_vector_b = 8;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 128;
  static constexpr int tile_n = 128;
  static constexpr int tile_k = 64;
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_bf16";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 2;
  static constexpr int sg_data_m = 64;
  static constexpr int sg_data_n = 64;
  static constexpr int swizzle_a = 128;
  static constexpr int swizzle_b = 128;
  static constexpr int stages = 2;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 1;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 4;
  static constexpr int tiles_n = 6;
  static constexpr int tiles_k = 9;
  static constexpr int tiles_of_split = 9;
  static constexpr int blocks = 24;
  static constexpr int launched_blocks = 11;
  static constexpr int threads = 160;
  static constexpr int stage_bytes_a = 16384;
  static constexpr int stage_bytes_b = 16384;
  static constexpr int stage_bytes = 32768;
  static constexpr int epilogue_line = 72;
  static constexpr int epilogue_bytes = 9216;
  static constexpr int shared_bytes = 74784;
  static constexpr int accumulators = 128;
  static constexpr int fragments_m = 4;
  static constexpr int fragments_n = 8;
  static constexpr int registers = 184;
};

extern "C" __global__ void __launch_bounds__(160, 1)
autosched_tma_matmul(const __grid_constant__ autosched::ptx::TensorMap a_map, const __grid_constant__ autosched::ptx::TensorMap b_map, const autosched::bf16* __restrict__ bias, autosched::bf16* __restrict__ out, float* __restrict__ partials, unsigned* __restrict__ counters, int raster) {
  autosched::tma_matmul<Config>(a_map, b_map, nullptr, nullptr, bias, out, partials, counters, raster);
}
