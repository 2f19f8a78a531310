// The warps of the resident blocks.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// The warps of the resident blocks.
struct Warps : Unit {
  using Unit::Unit;

  PerBlock<std::vector<Warp>> all{parking};
};
Lanes live_lanes(const Warp& w);  // lanes of the warp that have not exited
[[noreturn]] void stop_launch(Machine& machine, emulator::Kind kind, SiteIndex site, const char* message);

}  // namespace autosched::emulator::ptx
