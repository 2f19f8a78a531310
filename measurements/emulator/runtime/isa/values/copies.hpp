// Registers that pass on what was loaded: from where in global memory.
#pragma once
#include "isa/ptx.hpp"
#include "memory/copied.hpp"

namespace autosched::emulator::ptx {

// Looks for the registers of the program from which stores take what loads have put there.
void find_copies(Machine& machine);
// Before an instruction that writes such a register: what it holds is a copy of nothing else than what is moved there.
void follow_copies(Warp& w, const Instruction& i, Lanes active);
void note_copied(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned element_bytes);
Copied copied_by(const Warp& w, const Instruction& store, unsigned lane, unsigned element_bytes);

}  // namespace autosched::emulator::ptx
