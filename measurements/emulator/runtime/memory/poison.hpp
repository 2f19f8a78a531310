// Poison in place of undefined values, for repeated launches that decide whether results depend on them: other bytes,
// and other results of comparisons with undefined values.
#pragma once
#include <cstddef>
#include <cstdint>

namespace autosched::emulator {

struct Machine;

void fill_poison(Machine& machine, void* to, std::size_t bytes);
// Results of comparisons with undefined values, for 32 lanes.
std::uint32_t poison_answers(Machine& machine);
// Ends a launch at a decision that has the same result for most values, such as equality: runs with a few values cannot
// show that no value matters.
void leave_undecided(Machine& machine);

}  // namespace autosched::emulator
