// grid (6, 1, 1), block (128, 1, 1), 18432 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = autosched::bf16;
  using Intrinsic = autosched::MmaSync<autosched::bf16>;
  static constexpr int m = 131;
  static constexpr int n = 72;
  static constexpr int k = 200;
  static constexpr int batch = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 2;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 8;
  static constexpr int stages = 1;
  static constexpr int k_unroll = 1;
  static constexpr int split_k = 1;
  static constexpr int store_vector = 4;
  static constexpr int raster_group = 1;
  static constexpr bool epilogue_shared = true;
  static constexpr bool batch_inner = false;
  static constexpr bool has_bias = true;
  static constexpr autosched::Raster raster_order = autosched::Raster::column;
  static constexpr autosched::Activation activation = autosched::Activation::gelu;
  static constexpr autosched::Along reduce_along = autosched::Along::none;
  struct A {
    using T = autosched::bf16;
    using Layout = autosched::SharedLayout<64, 32, true, autosched::Pad<8, 1>>;
    static constexpr bool row_major = false;
    static constexpr int stage_bytes = 4608;
    static constexpr bool copy_async = false;
    static constexpr int copy_vector = 1;
    static constexpr int copy_columns = 64;
    static constexpr int copy_store = 1;
    static constexpr bool transposed = true;
  };
  struct B {
    using T = autosched::bf16;
    using Layout = autosched::SharedLayout<32, 64, true, autosched::Swizzle<2, 3, 3>>;
    static constexpr bool row_major = false;
    static constexpr int stage_bytes = 4096;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 2;
    static constexpr int copy_store = 8;
    static constexpr bool transposed = false;
  };
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::bf16* __restrict__ a, const autosched::bf16* __restrict__ b, const autosched::bf16* __restrict__ bias, autosched::bf16* __restrict__ out) {
  autosched::matmul<Config>(a, b, bias, out, nullptr, nullptr);
}
