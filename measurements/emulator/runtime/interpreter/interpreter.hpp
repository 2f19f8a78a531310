// Declarations shared by the files of the interpreter.
#pragma once
#include <vector>

#include "isa/warps.hpp"

namespace autosched::emulator::ptx {

void start(Machine& machine);  // called when the launch, its buffers and its arguments are known
void start_block(Machine& machine);
void end_block(Machine& machine);
void run_warp(Machine& machine, unsigned w);  // runs the warp until its lanes wait, exit, or yield
// message of an assertion that failed in the lane `self` (print.cpp)
std::string describe_assertion(Warp& w, const Instruction& i);
void execute(Warp& w, const Instruction& i, Lanes active);

// Collectives and barriers (collective.cpp).
void start_block_collectives(Machine& machine);
// Lanes arrive at a collective, which runs once all lanes of its mask have arrived.
void gather(Warp& w, const Instruction& i, std::uint32_t pc, Lanes arriving);
// Called when lanes have exited: lanes that waited only for the exited lanes continue.
void exit_lanes(Warp& w);
// Executes the collectives and barriers at which all required lanes have arrived. Returns true if there were any.
bool complete_collectives(Warp& w);

// Device functions (call.cpp).
void call(Warp& w, const Instruction& i, std::uint32_t pc, Lanes active);
void leave(Warp& w, Lanes active);

}  // namespace autosched::emulator::ptx
