// grid (36, 1, 1), block (128, 1, 1), 12800 bytes of dynamic shared memory
#include <autosched/kernels/matmul.cuh>

struct Config {
  using Out = float;
  using Intrinsic = autosched::MmaSync<autosched::f16>;
  static constexpr int m = 72;
  static constexpr int n = 136;
  static constexpr int k = 200;
  static constexpr int batch = 2;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 64;
  static constexpr int tile_k = 64;
  static constexpr int sg_layout_m = 2;
  static constexpr int sg_layout_n = 2;
  static constexpr int sg_data_m = 16;
  static constexpr int sg_data_n = 16;
  static constexpr int stages = 1;
  static constexpr int k_unroll = 1;
  static constexpr int split_k = 2;
  static constexpr int store_vector = 4;
  static constexpr int raster_group = 2;
  static constexpr bool epilogue_shared = true;
  static constexpr bool batch_inner = true;
  static constexpr bool has_bias = true;
  static constexpr autosched::Raster raster_order = autosched::Raster::grouped;
  static constexpr autosched::Activation activation = autosched::Activation::none;
  static constexpr autosched::Along reduce_along = autosched::Along::row;
  using ReduceState = autosched::SumState;
  struct A {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<32, 64, false, autosched::Swizzle<3, 3, 3>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 4096;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 8;
    static constexpr int copy_columns = 8;
    static constexpr int copy_store = 8;
    static constexpr bool transposed = false;
  };
  struct B {
    using T = autosched::f16;
    using Layout = autosched::SharedLayout<64, 64, false, autosched::Pad<8, 2>>;
    static constexpr bool row_major = true;
    static constexpr int stage_bytes = 8704;
    static constexpr bool copy_async = true;
    static constexpr int copy_vector = 4;
    static constexpr int copy_columns = 16;
    static constexpr int copy_store = 4;
    static constexpr bool transposed = true;
  };
};

extern "C" __global__ void __launch_bounds__(128, 1)
autosched_matmul(const autosched::f16* __restrict__ a, const autosched::f16* __restrict__ b, const float* __restrict__ bias, float* __restrict__ out, float* __restrict__ reduced, float* __restrict__ partials, unsigned* __restrict__ counters, float* __restrict__ parts, unsigned* __restrict__ band_counters) {
  autosched::matmul<Config>(a, b, bias, out, partials, counters, reduced, parts, band_counters);
}
