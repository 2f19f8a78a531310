// grid (9, 1, 1), block (64, 1, 1), 2048 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned;
  using Layout = autosched::SharedLayout<16, 8, false, autosched::Swizzle<3, 0, 3>>;
  static constexpr int rows = 37;
  static constexpr int columns = 45;
  static constexpr int batch = 1;
  static constexpr int element_bytes = 16;
  static constexpr int tile_m = 16;
  static constexpr int tile_n = 8;
  static constexpr int threads = 64;
  static constexpr autosched::Choice copy_x = "ld.global";
  static constexpr int vector_x = 1;
  static constexpr int copy_columns_x = 8;
  static constexpr int block_rows = 1;
  static constexpr int vector_out = 1;
  static constexpr int copy_columns_out = 8;
  static constexpr autosched::Choice layout_x = "swizzle(3,0,3)";
  static constexpr int tiles_per_block = 2;
  static constexpr int stages = 1;
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 4;
  static constexpr autosched::Choice raster = "grouped_2";
  static constexpr int row_tiles = 3;
  static constexpr int column_tiles = 6;
  static constexpr int tiles = 18;
  static constexpr int blocks = 9;
  static constexpr int staged = 8;
  static constexpr int registers = 32;
  static constexpr int load_piece = 1;
  static constexpr int store_piece = 1;
  static constexpr int stage_bytes = 2048;
  static constexpr int shared_bytes = 2048;
};

extern "C" __global__ void __launch_bounds__(64, 4)
autosched_transpose(const unsigned* __restrict__ x, unsigned* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
