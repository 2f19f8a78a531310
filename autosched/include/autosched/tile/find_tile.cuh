// Search for the group of a tile among groups of different sizes, by the warp that calls it.
#pragma once
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/ptx/warp/vote.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

struct FoundTile {
  int group, first;
};

// Returns the group of tile `tile`, and the number of the group's first tile. Group g has the elements from offsets[g]
// to offsets[g + 1], which are clamped to `high`, in tiles of `size`. Each lane counts the tiles of one group at a time.
template <int groups, int size>
__device__ __forceinline__ FoundTile find_tile(const int* offsets, int tile, int high, int lane) {
  FoundTile found{0, 0};
  int before = 0;  // tiles of the groups before `begin`
#pragma unroll 1
  for (int begin = 0; begin < groups; begin += 32) {
    const int group = begin + lane;
    const bool inside = group < groups;
    const int from = load_scalar(offsets + group, inside, 0, high);
    const int end = load_scalar(offsets + group + 1, inside, 0, high);
    int upto = maximum((end - from + (size - 1)) / size, 0);  // then the tiles up to the end of this lane's group
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = int(ptx::shfl_idx(unsigned(upto), lane - step));
      if (lane >= step) upto += other;
    }
    upto += before;
    const int done = __popc(ptx::vote_ballot(inside && upto <= tile));  // groups that end before the tile
    if (done > 0) found.first = int(ptx::shfl_idx(unsigned(upto), done - 1));
    found.group += done;
    if (done < 32) break;
    before = found.first;
  }
  return found;
}

}  // namespace autosched::tile
