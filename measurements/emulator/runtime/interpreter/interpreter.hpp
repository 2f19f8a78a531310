// Declarations shared by the files of the interpreter: its warps, and scheduling.
#pragma once
#include <vector>

#include "isa/warps.hpp"

namespace autosched::emulator::ptx {

void start(Machine& machine);  // called once the launch, its buffers and arguments are known
void start_block(Machine& machine);
void end_block(Machine& machine);
void run_warp(Machine& machine, unsigned w);  // runs until its lanes wait, exit, or yield
std::string describe_assertion(Warp& w, const Instruction& i);  // of a failed assertion, in the lane `self` (print.cpp)
void execute(Warp& w, const Instruction& i, Lanes active);

// Collectives and barriers (collective.cpp).
void start_block_collectives(Machine& machine);
// Lanes arrive at a collective, which runs once all lanes of its mask have arrived.
void gather(Warp& w, const Instruction& i, std::uint32_t pc, Lanes arriving);
// Lanes have exited: lanes that only waited for them continue.
void exit_lanes(Warp& w);
// Executes collectives and barriers that waiting lanes are ready for; returns true if there were any.
bool complete_collectives(Warp& w);

// Device functions (call.cpp).
void call(Warp& w, const Instruction& i, std::uint32_t pc, Lanes active);
void leave(Warp& w, Lanes active);

}  // namespace autosched::emulator::ptx
