// Happens-before between blocks, by fences and atomics.
#pragma once

namespace autosched::emulator {

void start_block_global();
void fence_device();

}  // namespace autosched::emulator
