// Tracks which registers contain unchanged values from global memory, and their locations.
#pragma once
#include "isa/ptx.hpp"
#include "memory/copied.hpp"

namespace autosched::emulator::ptx {

// Finds the registers of the kernel that may hold an unchanged loaded value that is stored later.
void find_copies(Machine& machine);
// Called before an instruction that writes such registers. After a move from a copy they hold a copy, after any other
// instruction they do not.
void follow_copies(Warp& w, const Instruction& i, Lanes active);
void note_copied(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned element_bytes);
Copied copied_by(const Warp& w, const Instruction& store, unsigned lane, unsigned element_bytes);

}  // namespace autosched::emulator::ptx
