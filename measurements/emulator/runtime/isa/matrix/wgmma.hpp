// wgmma operations in flight, and the registers that they use.
#pragma once
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_wgmma(Machine& machine);
void end_block_wgmma(Machine& machine);
// Reports an instruction that uses registers of a wgmma in flight.
void track_registers(Warp& w, const Instruction& i);

}  // namespace autosched::emulator::ptx
