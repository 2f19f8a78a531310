// What a branch skips, for reads of racing values that decide it: where that is nothing to a lane, so is the value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

// A predicate under which an instruction executes.
struct Guard {
  std::uint32_t slot;
  bool negated;
  // What computes it, in this order, from which thread it is; nothing where it does not follow from that.
  std::optional<std::vector<const Instruction*>> steps;
};

// Whether an instruction touches no memory, as those that make the address of a load on the same line.
bool only_computes(const Instruction& i);
// The guards of what a forward branch skips, where all else that it skips computes registers that nothing behind it reads;
// nothing where it skips more.
std::optional<std::vector<Guard>> guards_of_skipped(Machine& machine, std::size_t branch);
// Whether a lane meets a guard, as far as that follows from which thread it is; true where it does not follow.
bool may_meet(Warp& w, const Guard& guard, unsigned lane);

}  // namespace autosched::emulator::ptx
