// The local memory of a lane: its allocations and its end.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Bytes from `begin` to `end` belong to a new function or allocation, and are undefined.
void clear_local(Machine& machine, Local& local, std::uint32_t begin, std::uint32_t end);
// Releases everything above `top`.
void shrink_local(Warp& w, unsigned lane, std::uint32_t top);

}  // namespace autosched::emulator::ptx
