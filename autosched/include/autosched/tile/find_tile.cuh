// Finds the group to which a tile belongs, among groups of different sizes. All lanes of a warp call it together.
#pragma once
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/ptx/warp/vote.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

struct FoundTile {
  int group, first;
};

// Returns the index of the group that contains tile `tile`, and the index of the group's first tile. Group g has the
// elements offsets[g] to offsets[g + 1] - 1, divided into tiles of `size` elements. Offsets are clamped to the range
// from 0 to `high`. Each lane counts the tiles of one group at a time.
template <int groups, int size>
__device__ __forceinline__ FoundTile find_tile(const int* offsets, int tile, int high, int lane) {
  FoundTile result{0, 0};
  int before = 0;  // number of tiles of the groups before `begin`
#pragma unroll 1
  for (int begin = 0; begin < groups; begin += 32) {
    const int group = begin + lane;
    const bool inside = group < groups;
    const int from = load_scalar(offsets + group, inside, 0, high);
    const int end = load_scalar(offsets + group + 1, inside, 0, high);
    // after the scan: number of tiles up to the end of this lane's group
    int upto = maximum((end - from + (size - 1)) / size, 0);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = int(ptx::shfl_idx(unsigned(upto), lane - step));
      if (lane >= step) upto += other;
    }
    upto += before;
    const int done = __popc(ptx::vote_ballot(inside && upto <= tile));  // number of groups that end before the tile
    if (done > 0) result.first = int(ptx::shfl_idx(unsigned(upto), done - 1));
    result.group += done;
    if (done < 32) break;
    before = result.first;
  }
  return result;
}

}  // namespace autosched::tile
