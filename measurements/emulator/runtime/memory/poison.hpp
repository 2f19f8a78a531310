// To decide whether results depend on undefined values, the launch is repeated with poison in their place. Each
// repetition uses different bytes, and different results of comparisons with undefined values.
#pragma once
#include <cstddef>
#include <cstdint>

namespace autosched::emulator {

struct Machine;

void fill_poison(Machine& machine, void* to, std::size_t bytes);
// Results of comparisons with undefined values, for the 32 lanes of a warp.
std::uint32_t poison_answers(Machine& machine);
// Ends the launch if it runs with poison. Called for a decision that has the same result for most values, such as
// equality. Even if the results are the same with the few poison values that are tried, another value may change the
// result.
void leave_undecided(Machine& machine);

}  // namespace autosched::emulator
