// Analyses code that a branch skips. If the predicates of all skipped instructions are false in a lane, the skipped
// code has no effect. A racing value that decides the branch is then harmless.
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
  // The instructions that compute the predicate from the thread's indices, in order. Empty if the predicate depends on
  // anything else.
  std::optional<std::vector<const Instruction*>> steps;
};

// True if an instruction accesses no memory. A source line with a load also has such instructions, which compute the
// load's address.
bool only_computes(const Instruction& i);
// Returns the guards of the guarded instructions that a forward branch skips. Returns std::nullopt if a skipped
// instruction has no guard, unless it only computes registers that no other code reads.
std::optional<std::vector<Guard>> guards_of_skipped(Machine& machine, std::size_t branch);
// Evaluates a guard for a lane, from the thread's indices. Returns true if the guard depends on anything else.
bool may_meet(Warp& w, const Guard& guard, unsigned lane);

}  // namespace autosched::emulator::ptx
