// Happens-before between the threads of a block, in epochs of warps.
//
// Only barriers and bar.warp.sync order memory, and both gather whole warps: a warp's epoch ends there. Within an
// epoch, lanes of one warp are unordered (collectives such as ldmatrix or shfl order nothing in the PTX memory model).
#pragma once
#include <cstdint>

namespace autosched::emulator {

constexpr unsigned warp_size = 32;
constexpr unsigned max_warps = 32;

using Epoch = std::uint32_t;
// warp * 64 + lane; a collective access of the whole warp has lane 32.
using Who = std::uint16_t;
constexpr unsigned whole_warp = 32;
constexpr Who who_of(unsigned warp, unsigned lane) { return static_cast<Who>(warp * 64 + lane); }
constexpr unsigned warp_of(Who who) { return who / 64; }
constexpr unsigned lane_of(Who who) { return who % 64; }

struct Clocks {
  // Epochs go on from block to block, so that an older stamp is one of an earlier block.
  Epoch first = 1;
  Epoch now[max_warps];
  // seen[w][v]: everything warp v did up to this epoch happened before what warp w does next.
  Epoch seen[max_warps][max_warps];

  void start_block() {
    for (unsigned w = 0; w < max_warps; ++w) {
      now[w] = first;
      for (unsigned v = 0; v < max_warps; ++v) seen[w][v] = first - 1;
    }
  }
  void end_block() {
    for (unsigned w = 0; w < max_warps; ++w) {
      if (now[w] >= first) first = now[w] + 1;
    }
  }
  // Ends the epoch of a warp: its lanes are ordered with each other.
  void advance(unsigned w) {
    seen[w][w] = now[w];
    ++now[w];
  }
  // Whether something of this block, done by `before` in `epoch`, happened before what `me` does now.
  bool ordered(Who before, Epoch epoch, Who me) const {
    return epoch <= seen[warp_of(me)][warp_of(before)] || (before == me && lane_of(me) != whole_warp);
  }
};

}  // namespace autosched::emulator
