// grid (9, 1, 1), block (64, 1, 1), 2048 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned;
  using Layout = autosched::SharedLayout<16, 8, false, autosched::Swizzle<3, 0, 3>>;
  static constexpr autosched::TransposeRoute route = autosched::TransposeRoute::shared;
  static constexpr int rows = 37;
  static constexpr int columns = 45;
  static constexpr int batch = 1;
  static constexpr int element_bytes = 16;
  static constexpr int tile_rows = 16;
  static constexpr int tile_columns = 8;
  static constexpr int threads = 64;
  static constexpr int load_vector = 1;
  static constexpr int load_columns = 8;
  static constexpr int block_rows = 1;
  static constexpr int load_piece = 1;
  static constexpr int store_vector = 1;
  static constexpr int store_columns = 8;
  static constexpr int store_piece = 1;
  static constexpr int block_tiles = 2;
  static constexpr int stages = 1;
  static constexpr int stage_bytes = 2048;
  static constexpr int raster_group = 2;
  static constexpr autosched::Raster raster_order = autosched::Raster::grouped;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::none;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::none;
};

extern "C" __global__ void __launch_bounds__(64, 4)
autosched_transpose(const unsigned* __restrict__ x, unsigned* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
