// Effects of values in registers: the instructions through which values leave a lane, and the values that loads have
// read.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator {

// True if an exited thread skipped a barrier: it never executed the barrier, but exited in code after the barrier.
bool skipped_barrier(Machine& machine, const Thread& thread, SiteIndex barrier);

}  // namespace autosched::emulator

namespace autosched::emulator::ptx {

// number_effects numbers the instructions of a kernel through which values leave registers. note_effect records that
// lanes have executed such an instruction.
void number_effects(Machine& machine);
void note_effect(Warp& w, const Instruction& i, Lanes lanes);
void note_reading(Warp& w, const Instruction& i, unsigned lane, std::uint64_t address, unsigned bytes);
void note_last_read(Warp& w, const Instruction& i, Lanes lanes, const unsigned* addresses, unsigned bytes);
bool watches_reads(Machine& machine);
// Called when a load overwrites registers that contain the values of watched reads: decides whether these values had an
// effect.
void settle_overwritten(const Warp& w, const Instruction& load, Lanes lanes);
void start_block_effects(Machine& machine);

}  // namespace autosched::emulator::ptx
