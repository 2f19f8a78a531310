// grid (6, 1, 1), block (128, 1, 1), 8704 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = autosched::bf16;
  using Out = autosched::bf16;
  using Intrinsic = autosched::MmaSync<autosched::bf16>;
  using LayoutA = autosched::SharedLayout<64, 32, true, autosched::Pad<8, 1>>;
  using LayoutB = autosched::SharedLayout<32, 64, true, autosched::Swizzle<2, 3, 3>>;
  static constexpr int m = 131;
  static constexpr int n = 72;
  static constexpr int k = 200;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "col";
  static constexpr autosched::Choice order_b = "col";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "gelu";
  static constexpr autosched::Choice reduction = "none";
  static constexpr int copy_store_a = 1;
  static constexpr autosched::Choice access_a = "trans";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 0;
  static constexpr int copy_store_b = 8;
  static constexpr autosched::Choice access_b = "rows";
  static constexpr int access_vector_b = 8;
  static constexpr int leading_dimension_b = 0;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr autosched::Choice intrinsic = "mma_m16n8k16_bf16";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 2;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 8;
  static constexpr autosched::Choice layout_a = "transpose+pad(8,1)";
  static constexpr autosched::Choice copy_a = "ld.global";
  static constexpr autosched::Choice copy_b = "cp.async";
  static constexpr int vector_a = 1;
  static constexpr int vector_b = 8;
  static constexpr int copy_columns_a = 64;
  static constexpr int copy_columns_b = 2;
  static constexpr int stages = 1;
  static constexpr int unroll = 1;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 2;
  static constexpr int split_k = 1;
  static constexpr int stream_k = 0;
  static constexpr autosched::Choice batch_mapping = "outer";
  static constexpr int tiles_m = 3;
  static constexpr int tiles_n = 2;
  static constexpr int tiles_k = 7;
  static constexpr int tiles_of_split = 7;
  static constexpr int blocks = 6;
  static constexpr int launched_blocks = 6;
  static constexpr int threads = 128;
  static constexpr int stage_bytes_a = 4608;
  static constexpr int stage_bytes_b = 4096;
  static constexpr int stage_bytes = 8704;
  static constexpr int epilogue_line = 40;
  static constexpr int epilogue_bytes = 5120;
  static constexpr int shared_bytes = 8704;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 32;
  static constexpr int fragments_m = 2;
  static constexpr int fragments_n = 4;
  static constexpr int registers = 80;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::bf16* __restrict__ a, const autosched::bf16* __restrict__ b, const autosched::bf16* __restrict__ bias, autosched::bf16* __restrict__ out, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, bias, out, nullptr, nullptr, nullptr, nullptr, nullptr, raster);
}
