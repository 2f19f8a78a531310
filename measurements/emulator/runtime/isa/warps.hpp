// The warps of the blocks that run together.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// The warps of the blocks that run together.
struct Warps : Unit {
  using Unit::Unit;

  PerBlock<std::vector<Warp>> all{parking};
};
Lanes live_lanes(const Warp& w);  // that have not exited
[[noreturn]] void stop_launch(Machine& machine, emulator::Kind kind, SiteIndex site, const char* message);

}  // namespace autosched::emulator::ptx
