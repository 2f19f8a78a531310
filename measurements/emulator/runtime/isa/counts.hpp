// Counts for time estimates, if the job requests them (launch.count): executions of each instruction, and lengths of
// chains of dependent instructions.
#pragma once
#include <cstdint>
#include <string>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Counts an instruction that some lanes of the warp have executed together, or (if it is not plain) are about to
// execute.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc);
// Counts a product of an instruction whose operands determine its shape, such as "m128n256k16.bf16".
void note_product(Machine& machine, const Instruction& i, const std::string& shape);
// The mbarrier at `address` completes when all products that the warp has issued so far are done; a warp has seen it.
void note_products_committed(const Warp& w, std::uint32_t address);
void note_phase_seen(Warp& w, std::uint32_t address);
void begin_counting(Warp& w);  // starts counting for a block
void end_counting(const Warp& w);
void report_executed(Machine& machine);

}  // namespace autosched::emulator::ptx
