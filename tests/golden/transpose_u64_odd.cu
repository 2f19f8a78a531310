// grid (2, 1, 1), block (128, 1, 1), 6528 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned;
  using Layout = autosched::SharedLayout<16, 16, false, autosched::Pad<1, 1>>;
  static constexpr int rows = 33;
  static constexpr int columns = 51;
  static constexpr int batch = 1;
  static constexpr int element_bytes = 8;
  static constexpr int tile_m = 16;
  static constexpr int tile_n = 16;
  static constexpr int threads = 128;
  static constexpr autosched::Choice copy_x = "cp.async";
  static constexpr int vector_x = 1;
  static constexpr int copy_columns_x = 8;
  static constexpr int block_rows = 1;
  static constexpr int vector_out = 1;
  static constexpr int copy_columns_out = 16;
  static constexpr autosched::Choice layout_x = "pad(1,1)";
  static constexpr int tiles_per_block = 8;
  static constexpr int stages = 3;
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 2;
  static constexpr autosched::Choice raster = "column";
  static constexpr int row_tiles = 3;
  static constexpr int column_tiles = 4;
  static constexpr int tiles = 12;
  static constexpr int blocks = 2;
  static constexpr int staged = 4;
  static constexpr int registers = 28;
  static constexpr int load_piece = 1;
  static constexpr int store_piece = 1;
  static constexpr int stage_bytes = 2176;
  static constexpr int shared_bytes = 6528;
};

extern "C" __global__ void __launch_bounds__(128, 2)
autosched_transpose(const unsigned* __restrict__ x, unsigned* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
