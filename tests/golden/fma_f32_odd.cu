// grid (6, 1, 1), block (64, 1, 1), 25344 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = float;
  using Out = float;
  using Intrinsic = autosched::Fma<float, 4, 8, 4, 4>;
  using LayoutA = autosched::SharedLayout<64, 16, true>;
  using LayoutB = autosched::SharedLayout<16, 64, false, autosched::Pad<4, 1>>;
  static constexpr int m = 67;
  static constexpr int n = 133;
  static constexpr int k = 77;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "col";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr int copy_store_a = 1;
  static constexpr autosched::Choice access_a = "vector";
  static constexpr int access_vector_a = 4;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 1;
  static constexpr autosched::Choice access_b = "vector";
  static constexpr int access_vector_b = 4;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 16;
  static constexpr autosched::Choice intrinsic = "fma_m16n32k1";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 1;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 32;
  static constexpr autosched::Choice layout_a = "transpose";
  static constexpr autosched::Choice copy_a = "cp.async";
  static constexpr autosched::Choice copy_b = "ld.global";
  static constexpr int vector_a = 1;
  static constexpr int vector_b = 1;
  static constexpr int copy_columns_a = 16;
  static constexpr int copy_columns_b = 32;
  static constexpr int stages = 3;
  static constexpr int unroll = 4;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "registers";
  static constexpr int min_blocks = 2;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 2;
  static constexpr int tiles_n = 3;
  static constexpr int tiles_k = 5;
  static constexpr int tiles_of_split = 5;
  static constexpr int blocks = 6;
  static constexpr int launched_blocks = 6;
  static constexpr int threads = 64;
  static constexpr int stage_bytes_a = 4096;
  static constexpr int stage_bytes_b = 4352;
  static constexpr int stage_bytes = 8448;
  static constexpr int epilogue_line = 72;
  static constexpr int epilogue_bytes = 9216;
  static constexpr int shared_bytes = 25344;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 64;
  static constexpr int fragments_m = 2;
  static constexpr int fragments_n = 2;
  static constexpr int registers = 120;
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_matmul(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, bias, out, nullptr, nullptr, nullptr, nullptr, nullptr, raster);
}
