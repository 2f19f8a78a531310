// Counts for time estimates, if the job requests them (launch.count): executions of each instruction, and lengths of
// chains of dependent instructions.
#pragma once
#include <cstdint>
#include <string>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Counts an instruction that some lanes of the warp execute together. For an instruction with Flow::plain, this is
// called after the instruction; for all other instructions, before the instruction.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc);
// Counts a matrix product whose shape is not part of the instruction but follows from its operands, such as
// "m128n256k16.bf16".
void note_product(Machine& machine, const Instruction& i, const std::string& shape);
// note_products_committed: the mbarrier at `address` completes when all products that the warp has issued so far are
// done. note_phase_seen: a warp has observed the completion.
void note_products_committed(const Warp& w, std::uint32_t address);
void note_phase_seen(Warp& w, std::uint32_t address);
void begin_counting(Warp& w);  // starts counting for a block
void end_counting(const Warp& w);
void report_executed(Machine& machine);

}  // namespace autosched::emulator::ptx
