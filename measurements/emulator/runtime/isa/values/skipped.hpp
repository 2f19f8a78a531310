// Code that a branch skips, for racing values that decide the branch. If a lane would execute none of that code anyway,
// the value does not matter.
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
  // Instructions that compute it, in order, from the thread's indices; empty if it depends on anything else.
  std::optional<std::vector<const Instruction*>> steps;
};

// True if an instruction accesses no memory, like those that compute the address of a load on the same line.
bool only_computes(const Instruction& i);
// The guards of the code that a forward branch skips, if the rest of that code only computes registers that nothing
// reads afterwards; nothing if it skips more.
std::optional<std::vector<Guard>> guards_of_skipped(Machine& machine, std::size_t branch);
// True if a lane satisfies a guard, as far as that follows from its thread's indices; true if it does not follow.
bool may_meet(Warp& w, const Guard& guard, unsigned lane);

}  // namespace autosched::emulator::ptx
