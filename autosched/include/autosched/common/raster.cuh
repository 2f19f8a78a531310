// The order in which blocks walk the tiles of the output.
#pragma once

namespace autosched {

enum class Raster { row, column, grouped };

struct TileIndex {
  int m, n;
};

// row: along n first; column: along m first; grouped: bands of Group rows of tiles, each band walked column by
// column, so that the blocks of a wave share operands in L2.
template <Raster Order, int Group, int TilesM, int TilesN>
__device__ __forceinline__ TileIndex raster(int id) {
  if constexpr (Order == Raster::row) {
    return {id / TilesN, id % TilesN};
  } else if constexpr (Order == Raster::column) {
    return {id % TilesM, id / TilesM};
  } else {
    constexpr int band = Group * TilesN;
    const int first = id / band * Group;
    const int height = TilesM - first < Group ? TilesM - first : Group;
    const int inside = id % band;
    return {first + inside % height, inside / height};
  }
}

}  // namespace autosched
