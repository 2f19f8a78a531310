// wgmma: what a block remembers of it, and of its registers.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_wgmma(Machine& machine);
void end_block_wgmma(Machine& machine);
// What an instruction does to registers of wgmma, and what is wrong with that.
void track_registers(Warp& w, const Instruction& i);

}  // namespace autosched::emulator::ptx
