// What stands where nobody has written, in a launch that runs again to show whether anything depends on it: other bits, and
// other answers of comparisons with them, whatever these bits are.
#pragma once
#include <cstddef>
#include <cstdint>

namespace autosched::emulator {

// 0: what an emulated launch finds there. 1 to 7: bytes of one kind, among them numbers larger and smaller than others are,
// and not-a-number; beyond: pseudorandom ones (measurements/emulator/effect.py).
inline unsigned garbage = 0;

void fill_garbage(void* to, std::size_t bytes);
// Of comparisons with what is unknown, for 32 lanes.
std::uint32_t garbage_answers();
// Something was asked that most bits answer alike, as whether they equal others. No run with some bits says what holds for
// all: it ends.
void leave_undecided();

}  // namespace autosched::emulator
