// grid (24, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned;
  using Layout = autosched::SharedLayout<32, 32, false>;
  static constexpr autosched::TransposeRoute route = autosched::TransposeRoute::registers;
  static constexpr int rows = 100;
  static constexpr int columns = 72;
  static constexpr int batch = 2;
  static constexpr int element_bytes = 4;
  static constexpr int tile_rows = 32;
  static constexpr int tile_columns = 32;
  static constexpr int threads = 64;
  static constexpr int load_vector = 4;
  static constexpr int load_columns = 8;
  static constexpr int block_rows = 4;
  static constexpr int load_piece = 4;
  static constexpr int store_vector = 4;
  static constexpr int store_columns = 4;
  static constexpr int store_piece = 4;
  static constexpr int block_tiles = 1;
  static constexpr int stages = 1;
  static constexpr int stage_bytes = 0;
  static constexpr int raster_group = 2;
  static constexpr autosched::Raster raster_order = autosched::Raster::grouped;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::none;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::none;
};

extern "C" __global__ void __launch_bounds__(64, 1)
autosched_transpose(const unsigned* __restrict__ x, unsigned* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
