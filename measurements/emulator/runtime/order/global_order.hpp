// Happens-before between blocks, established by fences and atomics.
#pragma once

namespace autosched::emulator {

struct Machine;

void start_block_global(Machine& machine);
void fence_device(Machine& machine);

}  // namespace autosched::emulator
