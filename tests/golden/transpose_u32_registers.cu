// grid (24, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned;
  using Layout = void;
  static constexpr int rows = 100;
  static constexpr int columns = 72;
  static constexpr int batch = 2;
  static constexpr int element_bytes = 4;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 32;
  static constexpr int threads = 64;
  static constexpr autosched::Choice copy_x = "ld.global";
  static constexpr int vector_x = 4;
  static constexpr int copy_columns_x = 8;
  static constexpr int block_rows = 4;
  static constexpr int vector_out = 4;
  static constexpr int copy_columns_out = 4;
  static constexpr autosched::Choice layout_x = "none";
  static constexpr int tiles_per_block = 1;
  static constexpr int stages = 1;
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 1;
  static constexpr autosched::Choice raster = "grouped_2";
  static constexpr int row_tiles = 4;
  static constexpr int column_tiles = 3;
  static constexpr int tiles = 24;
  static constexpr int blocks = 24;
  static constexpr int staged = 16;
  static constexpr int registers = 40;
  static constexpr int load_piece = 0;
  static constexpr int store_piece = 0;
  static constexpr int stage_bytes = 0;
  static constexpr int shared_bytes = 0;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_transpose(const unsigned* __restrict__ x, unsigned* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
