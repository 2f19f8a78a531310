// grid (6, 1, 1), block (128, 1, 1), 20480 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = float;
  using Intrinsic = autosched::Wmma<autosched::f16>;
  static constexpr int m = 100;
  static constexpr int n = 136;
  static constexpr int k = 90;
  static constexpr int batch = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 32;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 2;
  static constexpr int sg_data_m = 32;
  static constexpr int sg_data_n = 32;
  static constexpr int stages = 2;
  static constexpr int k_unroll = 1;
  static constexpr int split_k = 1;
  static constexpr int store_vector = 4;
  static constexpr int raster_group = 1;
  static constexpr bool epilogue_shared = true;
  static constexpr bool batch_inner = false;
  static constexpr bool has_bias = true;
  static constexpr autosched::Raster raster_order = autosched::Raster::row;
  static constexpr autosched::Activation activation = autosched::Activation::relu;
  static constexpr autosched::Along reduce_along = autosched::Along::none;
  struct A {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<64, 32, false, autosched::Pad<8, 1>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 5120;
    static constexpr bool copy_async = false;
    static constexpr int copy_vector = 2;
    static constexpr int copy_columns = 2;
    static constexpr int copy_store = 2;
    static constexpr autosched::ptx::Major order = autosched::ptx::Major::row;
    static constexpr unsigned leading_dimension = 40;
  };
  struct B {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<32, 64, false, autosched::Pad<16, 1>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 5120;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 8;
    static constexpr int copy_store = 8;
    static constexpr autosched::ptx::Major order = autosched::ptx::Major::row;
    static constexpr unsigned leading_dimension = 80;
  };
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out) {
  autosched::matmul<Config>(a, b, bias, out, nullptr, nullptr);
}
