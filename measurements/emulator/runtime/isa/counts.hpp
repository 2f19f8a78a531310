// What a launch executes, for estimates of its time: how often each instruction, and how long the chains of dependent
// instructions are. Only where the job asks for it (launch.count).
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// An instruction has been executed by some lanes of the warp together, or (what is not plain) is about to be.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc);
void begin_counting(Warp& w);  // a block
void end_counting(const Warp& w);
void report_executed();

}  // namespace autosched::emulator::ptx
