// The warps of the blocks that run together.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

extern PerBlock<std::vector<Warp>> machine;  // by warp
Lanes live_lanes(const Warp& w);  // that have not exited
[[noreturn]] void stop_launch(emulator::Kind kind, SiteIndex site, const char* message);

}  // namespace autosched::emulator::ptx
