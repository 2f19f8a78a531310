// The local memory of a lane: what is on it, and how far it goes.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Bytes from `begin` to `end` are a new function's or allocation's: nobody has written them.
void clear_local(Machine& machine, Local& local, std::uint32_t begin, std::uint32_t end);
// What lies above `top` is no more.
void shrink_local(Warp& w, unsigned lane, std::uint32_t top);

}  // namespace autosched::emulator::ptx
