// grid (36, 1, 1), block (128, 1, 1), 12800 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  using Intrinsic = autosched::MmaSync<autosched::f16>;
  using LayoutA = autosched::SharedLayout<32, 64, false, autosched::Swizzle<3, 3, 3>>;
  using LayoutB = autosched::SharedLayout<64, 64, false, autosched::Pad<8, 2>>;
  static constexpr int m = 72;
  static constexpr int n = 136;
  static constexpr int k = 200;
  static constexpr int batch = 2;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "row_sum";
  static constexpr int copy_store_a = 8;
  static constexpr autosched::Choice access_a = "rows";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 4;
  static constexpr autosched::Choice access_b = "trans";
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
  static constexpr autosched::Choice layout_a = "swizzle(3,3,3)";
  static constexpr autosched::Choice copy_a = "cp.async";
  static constexpr autosched::Choice copy_b = "cp.async";
  static constexpr int vector_a = 8;
  static constexpr int vector_b = 4;
  static constexpr int copy_columns_a = 8;
  static constexpr int copy_columns_b = 16;
  static constexpr int stages = 1;
  static constexpr int unroll = 1;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 2;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "inner";
  static constexpr int tiles_m = 3;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 4;
  static constexpr int tiles_of_split = 2;
  static constexpr int blocks = 36;
  static constexpr int launched_blocks = 36;
  static constexpr int threads = 128;
  static constexpr int stage_bytes_a = 4096;
  static constexpr int stage_bytes_b = 8704;
  static constexpr int stage_bytes = 12800;
  static constexpr int epilogue_line = 72;
  static constexpr int epilogue_bytes = 9216;
  static constexpr int shared_bytes = 12800;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 16;
  static constexpr int fragments_m = 1;
  static constexpr int fragments_n = 4;
  static constexpr int registers = 52;
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out, float* __restrict__ reduced, float* __restrict__ partials, unsigned* __restrict__ counters, float* __restrict__ parts, unsigned* __restrict__ band_counters, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, bias, out, partials, counters, reduced, parts, band_counters, raster);
}
