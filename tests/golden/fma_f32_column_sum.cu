// grid (6, 1, 1), block (128, 1, 1), 8192 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = float;
  using Out = float;
  using Intrinsic = autosched::Fma<float, 8, 4, 1, 1>;
  using LayoutA = autosched::SharedLayout<32, 16, true, autosched::Swizzle<3, 2, 5>>;
  using LayoutB = autosched::SharedLayout<16, 32, false, autosched::Swizzle<3, 2, 4>>;
  static constexpr int m = 50;
  static constexpr int n = 70;
  static constexpr int k = 40;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "col";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "relu";
  static constexpr autosched::Choice reduction = "column_sum";
  static constexpr int copy_store_a = 2;
  static constexpr autosched::Choice access_a = "vector";
  static constexpr int access_vector_a = 1;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 1;
  static constexpr autosched::Choice access_b = "vector";
  static constexpr int access_vector_b = 1;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 32;
  static constexpr int tile_k = 16;
  static constexpr autosched::Choice intrinsic = "fma_m8n4k1";
  static constexpr int subgroups_m = 1;
  static constexpr int subgroups_n = 4;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 8;
  static constexpr autosched::Choice layout_a = "transpose+swizzle(3,2,5)";
  static constexpr autosched::Choice copy_a = "ld.global";
  static constexpr autosched::Choice copy_b = "ld.global";
  static constexpr int vector_a = 2;
  static constexpr int vector_b = 1;
  static constexpr int copy_columns_a = 16;
  static constexpr int copy_columns_b = 32;
  static constexpr int stages = 2;
  static constexpr int unroll = 8;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 1;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 2;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 3;
  static constexpr int tiles_of_split = 3;
  static constexpr int blocks = 6;
  static constexpr int launched_blocks = 6;
  static constexpr int threads = 128;
  static constexpr int stage_bytes_a = 2048;
  static constexpr int stage_bytes_b = 2048;
  static constexpr int stage_bytes = 4096;
  static constexpr int epilogue_line = 40;
  static constexpr int epilogue_bytes = 5120;
  static constexpr int shared_bytes = 8192;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 8;
  static constexpr int fragments_m = 4;
  static constexpr int fragments_n = 2;
  static constexpr int registers = 46;
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, float* __restrict__ reduced, float* __restrict__ parts, unsigned* __restrict__ band_counters, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, nullptr, out, nullptr, nullptr, reduced, parts, band_counters, raster);
}
