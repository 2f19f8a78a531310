// Communication by flags between threads that run together.
#pragma once
#include <cstdint>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Happens-before by flags between threads that run together (block_order.cpp): one thread executes a fence and then a
// strong write; another thread executes a strong read that observes this write, and then a fence (PTX ISA, memory
// consistency model: release and acquire patterns). ``narrow``: the access has block scope. A flag is any location in
// shared or global memory.
void start_block_order(Machine& machine);
void fence_block(Machine& machine, bool narrow);
std::uint64_t flag_in_shared(Machine& machine, unsigned address);
inline std::uint64_t flag_in_global(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
void read_flag(Machine& machine, std::uint64_t flag);
// ``update``: the write is an atomic, which preserves the releases of earlier writers (a release sequence).
void write_flag(Machine& machine, std::uint64_t flag, bool update, bool narrow);

}  // namespace autosched::emulator
