// grid (4, 1, 1), block (64, 1, 1), 18432 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = autosched::bf16;
  using Intrinsic = autosched::Fma<autosched::f16, 4, 8, 4, 4>;
  static constexpr int m = 96;
  static constexpr int n = 120;
  static constexpr int k = 104;
  static constexpr int batch = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 16;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 1;
  static constexpr int sg_data_m = 32;
  static constexpr int sg_data_n = 64;
  static constexpr int stages = 2;
  static constexpr int k_unroll = 8;
  static constexpr int split_k = 1;
  static constexpr int store_vector = 4;
  static constexpr int raster_group = 1;
  static constexpr bool epilogue_shared = true;
  static constexpr bool batch_inner = false;
  static constexpr bool has_bias = true;
  static constexpr autosched::Raster raster_order = autosched::Raster::row;
  static constexpr autosched::Activation activation = autosched::Activation::silu;
  static constexpr autosched::Along reduce_along = autosched::Along::none;
  struct A {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<64, 16, true>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 2048;
    static constexpr bool copy_async = false;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 2;
    static constexpr int copy_store = 1;
    static constexpr int vector = 4;
  };
  struct B {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<16, 64, false>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 2048;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 4;
    static constexpr int copy_columns = 16;
    static constexpr int copy_store = 4;
    static constexpr int vector = 4;
  };
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const autosched::bf16* __restrict__ bias, autosched::bf16* __restrict__ out) {
  autosched::matmul<Config>(a, b, bias, out, nullptr, nullptr);
}
