// What a launch executes, for estimates of its time: how often each instruction, and how long the chains of dependent
// instructions are. Only where the job asks for it (launch.count).
#pragma once
#include <cstdint>
#include <string>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// An instruction has been executed by some lanes of the warp together, or (what is not plain) is about to be.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc);
// An instruction whose operands say what it multiplies has multiplied `shape`, as in "m128n256k16.bf16".
void note_product(Machine& machine, const Instruction& i, const std::string& shape);
// The mbarrier at `address` completes when the products are done that the warp has asked for so far; a warp has seen it.
void note_products_committed(const Warp& w, std::uint32_t address);
void note_phase_seen(Warp& w, std::uint32_t address);
void begin_counting(Warp& w);  // a block
void end_counting(const Warp& w);
void report_executed(Machine& machine);

}  // namespace autosched::emulator::ptx
