// grid (5, 1, 1), block (64, 1, 1), 12288 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned char;
  using Layout = autosched::SharedLayout<64, 64, false, autosched::Swizzle<3, 4, 4>>;
  static constexpr int rows = 132;
  static constexpr int columns = 100;
  static constexpr int batch = 3;
  static constexpr int element_bytes = 1;
  static constexpr int tile_m = 64;
  static constexpr int tile_n = 64;
  static constexpr int threads = 64;
  static constexpr autosched::Choice copy_x = "cp.async";
  static constexpr int vector_x = 4;
  static constexpr int copy_columns_x = 16;
  static constexpr int block_rows = 1;
  static constexpr int vector_out = 4;
  static constexpr int copy_columns_out = 16;
  static constexpr autosched::Choice layout_x = "swizzle(3,4,4)";
  static constexpr int tiles_per_block = 4;
  static constexpr int stages = 3;
  static constexpr autosched::Choice cache_hint_x = "none";
  static constexpr autosched::Choice cache_hint_out = "none";
  static constexpr int min_blocks = 2;
  static constexpr autosched::Choice raster = "grouped_2";
  static constexpr int row_tiles = 3;
  static constexpr int column_tiles = 2;
  static constexpr int tiles = 18;
  static constexpr int blocks = 5;
  static constexpr int staged = 16;
  static constexpr int registers = 40;
  static constexpr int load_piece = 4;
  static constexpr int store_piece = 1;
  static constexpr int stage_bytes = 4096;
  static constexpr int shared_bytes = 12288;
};

extern "C" __global__ void __launch_bounds__(64, 2)
autosched_transpose(const unsigned char* __restrict__ x, unsigned char* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
