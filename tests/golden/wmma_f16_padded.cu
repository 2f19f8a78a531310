// grid (6, 1, 1), block (128, 1, 1), 20480 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using T = autosched::f16;
  using Out = float;
  using Intrinsic = autosched::Wmma<autosched::f16>;
  using LayoutA = autosched::SharedLayout<64, 32, false, autosched::Pad<8, 1>>;
  using LayoutB = autosched::SharedLayout<32, 64, false, autosched::Pad<16, 1>>;
  static constexpr int m = 100;
  static constexpr int n = 136;
  static constexpr int k = 90;
  static constexpr int batch = 1;
  static constexpr autosched::Choice order_a = "row";
  static constexpr autosched::Choice order_b = "row";
  static constexpr autosched::Choice scale = "none";
  static constexpr bool has_bias = true;
  static constexpr autosched::Choice activation = "relu";
  static constexpr autosched::Choice reduction = "none";
  static constexpr int copy_store_a = 2;
  static constexpr autosched::Choice access_a = "row";
  static constexpr int access_vector_a = 8;
  static constexpr int leading_dimension_a = 40;
  static constexpr int copy_store_b = 8;
  static constexpr autosched::Choice access_b = "row";
  static constexpr int access_vector_b = 8;
  static constexpr int leading_dimension_b = 80;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr autosched::Choice intrinsic = "wmma_m16n16k16_f16";
  static constexpr int subgroups_m = 2;
  static constexpr int subgroups_n = 2;
  static constexpr int sg_data_m = 32;
  static constexpr int sg_data_n = 32;
  static constexpr autosched::Choice layout_a = "pad(8,1)";
  static constexpr autosched::Choice copy_a = "ld.global";
  static constexpr autosched::Choice copy_b = "cp.async";
  static constexpr int vector_a = 2;
  static constexpr int vector_b = 8;
  static constexpr int copy_columns_a = 2;
  static constexpr int copy_columns_b = 8;
  static constexpr int stages = 2;
  static constexpr int unroll = 1;
  static constexpr int fragment_buffers = 1;
  static constexpr autosched::Choice epilogue = "shared";
  static constexpr int min_blocks = 2;
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
  static constexpr int stage_bytes_a = 5120;
  static constexpr int stage_bytes_b = 5120;
  static constexpr int stage_bytes = 10240;
  static constexpr int epilogue_line = 72;
  static constexpr int epilogue_bytes = 18432;
  static constexpr int shared_bytes = 20480;
  static constexpr int early_copies = 0;
  static constexpr int accumulators = 32;
  static constexpr int fragments_m = 2;
  static constexpr int fragments_n = 2;
  static constexpr int registers = 96;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out, int raster) {
  autosched::matmul<Config>(a, b, nullptr, nullptr, bias, out, nullptr, nullptr, nullptr, nullptr, nullptr, raster);
}
