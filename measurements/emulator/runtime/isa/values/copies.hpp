// Registers that contain unchanged loaded values, with their location in global memory.
#pragma once
#include "isa/ptx.hpp"
#include "memory/copied.hpp"

namespace autosched::emulator::ptx {

// Finds the registers of the kernel from which stores take unchanged loaded values.
void find_copies(Machine& machine);
// Called before an instruction that writes such a register, which remains a copy only after a move.
void follow_copies(Warp& w, const Instruction& i, Lanes active);
void note_copied(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned element_bytes);
Copied copied_by(const Warp& w, const Instruction& store, unsigned lane, unsigned element_bytes);

}  // namespace autosched::emulator::ptx
