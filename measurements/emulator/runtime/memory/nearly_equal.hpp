// Tests whether values only differ in their last bits, like sums of the same terms in different orders.
#pragma once
#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// True if the values that two threads write with the instruction at `site` differ so little that they may be sums of
// the same terms in different orders. Elements are compared in the number format that the instruction stores.
bool nearly_equal(Machine& machine, const void* one, const void* other, int bytes, SiteIndex site);

}  // namespace autosched::emulator
