// Tracks which registers contain unchanged values from global memory, and from which locations they were loaded.
#pragma once
#include "isa/ptx.hpp"
#include "memory/copied.hpp"

namespace autosched::emulator::ptx {

// Finds the registers of the kernel that may hold a loaded value that is later stored unchanged.
void find_copies(Machine& machine);
// Called before an instruction that writes registers found by find_copies. If the instruction moves a copy of a loaded
// value, these registers are recorded as holding a copy, too; otherwise, as not holding one.
void follow_copies(Warp& w, const Instruction& i, Lanes active);
void note_copied(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned element_bytes);
Copied copied_by(const Warp& w, const Instruction& store, unsigned lane, unsigned element_bytes);

}  // namespace autosched::emulator::ptx
