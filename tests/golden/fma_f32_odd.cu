// grid (6, 1, 1), block (64, 1, 1), 25344 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = float;
  using Intrinsic = autosched::Fma<float, 4, 8, 4, 4>;
  static constexpr int m = 67;
  static constexpr int n = 133;
  static constexpr int k = 77;
  static constexpr int batch = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 16;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 1;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 32;
  static constexpr int stages = 3;
  static constexpr int k_unroll = 4;
  static constexpr int split_k = 1;
  static constexpr int store_vector = 1;
  static constexpr int raster_group = 1;
  static constexpr bool epilogue_shared = false;
  static constexpr bool batch_inner = false;
  static constexpr bool has_bias = true;
  static constexpr autosched::Raster raster_order = autosched::Raster::column;
  static constexpr autosched::Activation activation = autosched::Activation::none;
  static constexpr autosched::Along reduce_along = autosched::Along::none;
  struct A {
    using T = float;
    using Layout = autosched::SharedLayout<64, 16, true>;
    static constexpr bool row_major = false;
    static constexpr int stage_bytes = 4096;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 1;
    static constexpr int copy_columns = 16;
    static constexpr int copy_store = 1;
    static constexpr int vector = 4;
  };
  struct B {
    using T = float;
    using Layout = autosched::SharedLayout<16, 64, false, autosched::Pad<4, 1>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 4352;
    static constexpr bool copy_async = false;
    static constexpr int copy_vector = 1;
    static constexpr int copy_columns = 32;
    static constexpr int copy_store = 1;
    static constexpr int vector = 4;
  };
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_matmul(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out) {
  autosched::matmul<Config>(a, b, bias, out, nullptr, nullptr);
}
