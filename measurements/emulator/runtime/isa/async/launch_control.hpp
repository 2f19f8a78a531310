// Blocks that take over the grid position of blocks that have not started (clusterlaunchcontrol).
#pragma once

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

void start_block_launch_control(Machine& machine);

}  // namespace autosched::emulator::ptx
