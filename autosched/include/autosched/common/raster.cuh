// The order in which blocks compute the tiles of the output.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/hilbert.cuh>

namespace autosched {

enum class Raster { row, column, grouped, hilbert };

// Values of the parameter `raster` (search_spaces/templates/common/raster.py): the order, and the number of tile rows
// in a band, 8 for "grouped_8" and 1 for other values.
__host__ __device__ constexpr Raster raster_order(const Choice& name) {
  return name == "row"       ? Raster::row
         : name == "column"  ? Raster::column
         : name == "hilbert" ? Raster::hilbert
                             : Raster::grouped;
}
__host__ __device__ constexpr int raster_group(const Choice& name) {
  if (!name.starts_with("grouped_")) return 1;
  int rows = 0;
  for (int i = 8; name.text[i] != 0; ++i) rows = 10 * rows + (name.text[i] - '0');
  return rows;
}

struct TileIndex {
  int m, n;
};

// An order of tiles that the launch passes as an argument (search_spaces/templates/common/raster.py). `order` is -1 for
// "column". Otherwise it is log2 of the number of tile rows in a band: 0 for "row", and 3 for "grouped_8". Kernels that
// differ only in this order share a module. The Hilbert curve needs separate code.
struct LaunchRaster {
  int order;
};
constexpr int most_band_rows = 16;

// Orders of tiles:
// - row: along n first
// - column: along m first
// - grouped: in bands of Group tile rows, each traversed column by column
// - hilbert: along a curve whose sections are about square
// With grouped and hilbert, the blocks of a wave share operands in L2.
template <Raster Order, int Group, int TilesM, int TilesN>
__device__ __forceinline__ TileIndex raster(int id) {
  if constexpr (Order == Raster::row) {
    return {id / TilesN, id % TilesN};
  } else if constexpr (Order == Raster::column) {
    return {id % TilesM, id / TilesM};
  } else if constexpr (Order == Raster::hilbert) {
    const int tile = hilbert(id, TilesM, TilesN);
    return {tile / TilesN, tile % TilesN};
  } else {
    // The last band may have fewer rows. The heights of full bands and of the last band are constants, so divisions
    // become multiplications.
    constexpr int band = Group * TilesN, lower = TilesM % Group;
    const int first = id / band * Group, inside = id % band;
    if constexpr (lower != 0) {
      if (first + Group > TilesM) return {first + inside % lower, inside / lower};
    }
    return {first + inside % Group, inside / Group};
  }
}

// The tile of a block if the launch passes the order of the tiles. Divisions are by constants, except in a last band
// with fewer rows.
template <bool Hilbert, int TilesM, int TilesN>
__device__ __forceinline__ TileIndex raster(LaunchRaster launch, int id) {
  if constexpr (Hilbert) {
    return raster<Raster::hilbert, 1, TilesM, TilesN>(id);
  } else if constexpr (TilesM == 1 || TilesN == 1) {
    return raster<Raster::row, 1, TilesM, TilesN>(id);  // with a single row or column of tiles, all orders are equal
  } else {
    if (launch.order < 0) return raster<Raster::column, 1, TilesM, TilesN>(id);
    const int first = id / TilesN >> launch.order << launch.order, inside = id - first * TilesN;
    if constexpr (TilesM % most_band_rows != 0) {
      const int lower = TilesM - first;
      if (lower < 1 << launch.order) return {first + inside % lower, inside / lower};
    }
    return {first + (inside & ((1 << launch.order) - 1)), inside >> launch.order};
  }
}

// The tile of a block if the launch passes the numbers of tiles.
template <Raster Order, int Group>
__device__ __forceinline__ TileIndex raster(int id, int tiles_m, int tiles_n) {
  if constexpr (Order == Raster::row) {
    return {id / tiles_n, id % tiles_n};
  } else if constexpr (Order == Raster::column) {
    return {id % tiles_m, id / tiles_m};
  } else if constexpr (Order == Raster::hilbert) {
    const int tile = hilbert(id, tiles_m, tiles_n);
    return {tile / tiles_n, tile % tiles_n};
  } else {
    const int band = Group * tiles_n, first = id / band * Group, inside = id % band;
    const int height = min(Group, tiles_m - first);
    return {first + inside % height, inside / height};
  }
}

}  // namespace autosched
