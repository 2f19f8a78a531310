// Allocation and release of a lane's local memory.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Marks the bytes from `begin` to `end` as undefined, because a new function or allocation now uses them.
void clear_local(Machine& machine, Local& local, std::uint32_t begin, std::uint32_t end);
// Releases everything above `top`.
void shrink_local(Warp& w, unsigned lane, std::uint32_t top);

}  // namespace autosched::emulator::ptx
