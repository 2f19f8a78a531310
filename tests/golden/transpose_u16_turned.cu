// grid (8, 1, 1), block (64, 1, 1), 2304 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned short;
  using Layout = autosched::SharedLayout<32, 32, true, autosched::Pad<4, 1>>;
  static constexpr int rows = 70;
  static constexpr int columns = 140;
  static constexpr int batch = 1;
  static constexpr int element_bytes = 2;
  static constexpr int tile_m = 32;
  static constexpr int tile_n = 32;
  static constexpr int threads = 64;
  static constexpr autosched::Choice copy_x = "ld.global";
  static constexpr int vector_x = 4;
  static constexpr int copy_columns_x = 8;
  static constexpr int block_rows = 4;
  static constexpr int vector_out = 2;
  static constexpr int copy_columns_out = 16;
  static constexpr autosched::Choice layout_x = "transpose+pad(4,1)";
  static constexpr int tiles_per_block = 2;
  static constexpr int stages = 1;
  static constexpr autosched::Choice cache_hint_x = "no_allocate";
  static constexpr autosched::Choice cache_hint_out = "streaming";
  static constexpr int min_blocks = 3;
  static constexpr autosched::Choice raster = "grouped_16";
  static constexpr int row_tiles = 3;
  static constexpr int column_tiles = 5;
  static constexpr int tiles = 15;
  static constexpr int blocks = 8;
  static constexpr int staged = 8;
  static constexpr int registers = 32;
  static constexpr int load_piece = 4;
  static constexpr int store_piece = 2;
  static constexpr int stage_bytes = 2304;
  static constexpr int shared_bytes = 2304;
};

extern "C" __global__ void __launch_bounds__(64, 3)
autosched_transpose(const unsigned short* __restrict__ x, unsigned short* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
