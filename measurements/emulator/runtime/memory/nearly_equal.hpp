// Values that only differ in their last bits, like sums of the same terms in different orders (nearly_equal.cpp).
#pragma once
#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// True if values that two threads write by the instruction `site` differ as little as two sums of the same terms. They
// are compared element by element in the number format that the instruction stores.
bool nearly_equal(Machine& machine, const void* one, const void* other, int bytes, SiteIndex site);

}  // namespace autosched::emulator
