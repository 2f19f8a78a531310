// grid (12, 1, 1), block (128, 1, 1), 32768 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = autosched::f16;
  using Intrinsic = autosched::MmaSync<autosched::f16>;
  static constexpr int m = 192;
  static constexpr int n = 200;
  static constexpr int k = 264;
  static constexpr int batch = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 2;
  static constexpr int sg_data_m = 32;
  static constexpr int sg_data_n = 32;
  static constexpr int stages = 4;
  static constexpr int k_unroll = 2;
  static constexpr int split_k = 1;
  static constexpr int store_vector = 4;
  static constexpr int raster_group = 2;
  static constexpr bool epilogue_shared = false;
  static constexpr bool batch_inner = false;
  static constexpr bool has_bias = false;
  static constexpr autosched::Raster raster_order = autosched::Raster::grouped;
  static constexpr autosched::Activation activation = autosched::Activation::none;
  static constexpr autosched::Along reduce_along = autosched::Along::none;
  struct A {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<64, 32, false, autosched::Swizzle<2, 3, 3>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 4096;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 2;
    static constexpr int copy_store = 8;
    static constexpr bool transposed = false;
  };
  struct B {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<32, 64, false, autosched::Swizzle<3, 3, 3>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 4096;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 8;
    static constexpr int copy_store = 8;
    static constexpr bool transposed = true;
  };
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, autosched::f16* __restrict__ out) {
  autosched::matmul<Config>(a, b, nullptr, out, nullptr, nullptr);
}
