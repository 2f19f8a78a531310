// Communication by flags between threads that run together.
#pragma once
#include <cstdint>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Happens-before between threads that run together, by flags (block_order.cpp): a fence and a strong write that another
// thread's strong read observes, and a fence after that (PTX ISA, memory consistency model: release and acquire
// patterns). ``narrow``: of block scope. The flag is in shared or global memory.
void start_block_order(Machine& machine);
void fence_block(Machine& machine, bool narrow);
std::uint64_t flag_in_shared(Machine& machine, unsigned address);
inline std::uint64_t flag_in_global(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
void read_flag(Machine& machine, std::uint64_t flag);
// ``update``: the write is by an atomic, which preserves the releases of earlier writers (a release sequence).
void write_flag(Machine& machine, std::uint64_t flag, bool update, bool narrow);

}  // namespace autosched::emulator
