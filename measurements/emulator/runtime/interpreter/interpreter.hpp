// What the files of the machine share: its warps, and who goes on when.
#pragma once
#include <vector>

#include "isa/warps.hpp"

namespace autosched::emulator::ptx {

void start(Machine& machine);  // once the launch, its buffers and arguments are known
void start_block(Machine& machine);
void end_block(Machine& machine);
void run_warp(Machine& machine, unsigned w);  // until its lanes wait, exit, or let others go on
std::string describe_assertion(Warp& w, const Instruction& i);  // that fails, of the lane that is `self` (print.cpp)
void execute(Warp& w, const Instruction& i, Lanes active);

// Collectives and barriers (collective.cpp).
void start_block_collectives(Machine& machine);
// Lanes come to a collective; it runs once all that it names are there.
void gather(Warp& w, const Instruction& i, std::uint32_t pc, Lanes arriving);
// Lanes have exited: who waits for no others goes on.
void exit_lanes(Warp& w);
// Executes what waiting lanes are ready for; whether any were.
bool complete_collectives(Warp& w);

// Device functions (call.cpp).
void call(Warp& w, const Instruction& i, std::uint32_t pc, Lanes active);
void leave(Warp& w, Lanes active);

}  // namespace autosched::emulator::ptx
