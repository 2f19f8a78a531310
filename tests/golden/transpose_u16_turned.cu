// grid (8, 1, 1), block (64, 1, 1), 2304 bytes of dynamic shared memory
#include <autosched/kernels/transpose.cuh>

struct Config {
  using Word = unsigned short;
  using Layout = autosched::SharedLayout<32, 32, true, autosched::Pad<4, 1>>;
  static constexpr autosched::TransposeRoute route = autosched::TransposeRoute::shared;
  static constexpr int rows = 70;
  static constexpr int columns = 140;
  static constexpr int batch = 1;
  static constexpr int element_bytes = 2;
  static constexpr int tile_rows = 32;
  static constexpr int tile_columns = 32;
  static constexpr int threads = 64;
  static constexpr int load_vector = 4;
  static constexpr int load_columns = 8;
  static constexpr int block_rows = 4;
  static constexpr int load_piece = 4;
  static constexpr int store_vector = 2;
  static constexpr int store_columns = 16;
  static constexpr int store_piece = 2;
  static constexpr int block_tiles = 2;
  static constexpr int stages = 1;
  static constexpr int stage_bytes = 2304;
  static constexpr int raster_group = 16;
  static constexpr autosched::Raster raster_order = autosched::Raster::grouped;
  static constexpr autosched::LoadHint x_cache = autosched::LoadHint::no_allocate;
  static constexpr autosched::StoreHint out_cache = autosched::StoreHint::streaming;
};

extern "C" __global__ void __launch_bounds__(64, 3)
autosched_transpose(const unsigned short* __restrict__ x, unsigned short* __restrict__ out) {
  autosched::transpose<Config>(x, out);
}
