// grid (2, 1, 1), block (128, 1, 1), 16896 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::f16;
  using Intrinsic = autosched::Fma<autosched::bf16, 8, 4, 1, 1>;
  using LayoutA = autosched::SharedLayout<64, 32, false, autosched::Pad<4, 2>>;
  using LayoutB = autosched::SharedLayout<32, 64, false, autosched::Swizzle<6, 0, 6>>;
  static constexpr int m = 64;
  static constexpr int n = 80;
  static constexpr int k = 96;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = false;
  static constexpr autosched::Choice activation = "none";
  static constexpr autosched::Choice reduction = "none";
  static constexpr int copy_store_a = 4;
  static constexpr autosched::Choice access_a = "vector";
  static constexpr int access_vector_a = 1;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 1;
  static constexpr autosched::Choice access_b = "vector";
  static constexpr int access_vector_b = 1;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr autosched::Choice intrinsic = "fma_m8n4k1";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 2;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 16;
  static constexpr autosched::Choice layout_a = "pad(4,2)";
  static constexpr autosched::Choice copy_a = "ld.global";
  static constexpr autosched::Choice copy_b = "ld.global";
  static constexpr int vector_a = 8;
  static constexpr int vector_b = 4;
  static constexpr int copy_columns_a = 4;
  static constexpr int copy_columns_b = 4;
  static constexpr int stages = 2;
  static constexpr int unroll = 2;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 2;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 1;
  static constexpr int tiles_n = 2;
  static constexpr int tiles_k = 3;
  static constexpr int tiles_of_split = 3;
  static constexpr int blocks = 2;
  static constexpr int launched_blocks = 2;
  static constexpr int threads = 128;
  static constexpr int stage_bytes_a = 4352;
  static constexpr int stage_bytes_b = 4096;
  static constexpr int stage_bytes = 8448;
  static constexpr int epilogue_line = 40;
  static constexpr int epilogue_bytes = 2560;
  static constexpr int shared_bytes = 16896;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 32;
  static constexpr int fragments_m = 4;
  static constexpr int fragments_n = 8;
  static constexpr int registers = 84;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::bf16* __restrict__ a, const autosched::bf16* __restrict__ b, autosched::f16* __restrict__ out, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, nullptr, out, nullptr, nullptr, nullptr, nullptr, nullptr, raster);
}
