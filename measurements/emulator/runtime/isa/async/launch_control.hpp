// Blocks that take over the position of others which have not begun (clusterlaunchcontrol).
#pragma once

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

void start_block_launch_control(Machine& machine);

}  // namespace autosched::emulator::ptx
