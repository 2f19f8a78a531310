// Counts executed instructions for time estimates: how often each is executed, and the length of chains of dependent
// instructions. Only if the job requests it (launch.count).
#pragma once
#include <cstdint>
#include <string>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// Some lanes of the warp have executed an instruction together, or (if it is not a plain one) are about to.
void note_executed(Warp& w, const Instruction& i, std::uint32_t pc);
// An instruction whose operands determine its shape has multiplied `shape`, such as "m128n256k16.bf16".
void note_product(Machine& machine, const Instruction& i, const std::string& shape);
// The mbarrier at `address` completes when all products that the warp has issued so far are done; a warp has seen it.
void note_products_committed(const Warp& w, std::uint32_t address);
void note_phase_seen(Warp& w, std::uint32_t address);
void begin_counting(Warp& w);  // starts counting for a block
void end_counting(const Warp& w);
void report_executed(Machine& machine);

}  // namespace autosched::emulator::ptx
