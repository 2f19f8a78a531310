// What stands where nobody has written, in a launch that runs again to show whether anything depends on it: other bits, and
// other answers of comparisons with them, whatever these bits are.
#pragma once
#include <cstddef>
#include <cstdint>

namespace autosched::emulator {

struct Machine;

void fill_garbage(Machine& machine, void* to, std::size_t bytes);
// Of comparisons with what is unknown, for 32 lanes.
std::uint32_t garbage_answers(Machine& machine);
// Something was asked that most bits answer alike, as whether they equal others. No run with some bits says what holds for
// all: it ends.
void leave_undecided(Machine& machine);

}  // namespace autosched::emulator
