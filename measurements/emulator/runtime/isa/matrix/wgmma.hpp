// State of wgmma operations of a block, and of their registers.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_wgmma(Machine& machine);
void end_block_wgmma(Machine& machine);
// Checks an instruction's use of registers of wgmma.
void track_registers(Warp& w, const Instruction& i);

}  // namespace autosched::emulator::ptx
