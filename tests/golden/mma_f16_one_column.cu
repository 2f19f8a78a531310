// grid (3, 1, 1), block (64, 1, 1), 6144 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  using Intrinsic = autosched::MmaSync<autosched::f16>;
  using LayoutA = autosched::SharedLayout<32, 32, true, autosched::Swizzle<3, 3, 5>>;
  using LayoutB = autosched::SharedLayout<32, 16, false>;
  static constexpr int m = 67;
  static constexpr int n = 1;
  static constexpr int k = 40;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr int copy_store_a = 1;
  static constexpr autosched::Choice access_a = "trans";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 1;
  static constexpr autosched::Choice access_b = "trans";
  static constexpr int access_vector_b = 8;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 16;
  static constexpr int tile_k = 32;
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_f16";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 1;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 16;
  static constexpr autosched::Choice layout_a = "transpose+swizzle(3,3,5)";
  static constexpr autosched::Choice copy_a = "ld.global";
  static constexpr autosched::Choice copy_b = "ld.global";
  static constexpr int vector_a = 8;
  static constexpr int vector_b = 1;
  static constexpr int copy_columns_a = 2;
  static constexpr int copy_columns_b = 16;
  static constexpr int stages = 2;
  static constexpr int unroll = 2;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 3;
  static constexpr int tiles_n = 1;
  static constexpr int tiles_k = 2;
  static constexpr int tiles_of_split = 2;
  static constexpr int blocks = 3;
  static constexpr int launched_blocks = 3;
  static constexpr int threads = 64;
  static constexpr int stage_bytes_a = 2048;
  static constexpr int stage_bytes_b = 1024;
  static constexpr int stage_bytes = 3072;
  static constexpr int epilogue_line = 24;
  static constexpr int epilogue_bytes = 3072;
  static constexpr int shared_bytes = 6144;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 8;
  static constexpr int fragments_m = 1;
  static constexpr int fragments_n = 2;
  static constexpr int registers = 52;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, bias, out, nullptr, nullptr, nullptr, nullptr, nullptr, raster);
}
