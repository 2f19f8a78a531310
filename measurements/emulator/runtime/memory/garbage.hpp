// Poison in place of undefined values, in a launch that runs again to find out whether anything depends on them: other
// bits, and other results of comparisons with them, whatever these bits are.
#pragma once
#include <cstddef>
#include <cstdint>

namespace autosched::emulator {

struct Machine;

void fill_garbage(Machine& machine, void* to, std::size_t bytes);
// Results of comparisons with undefined values, for 32 lanes.
std::uint32_t garbage_answers(Machine& machine);
// A question was asked that most bits answer alike, such as equality. No run with particular bits shows what holds for
// all, so it ends.
void leave_undecided(Machine& machine);

}  // namespace autosched::emulator
