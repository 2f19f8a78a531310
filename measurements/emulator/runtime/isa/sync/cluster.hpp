// Blocks of a cluster, which wait for each other.
#pragma once

namespace autosched::emulator::ptx {

void start_block_cluster();
void report_waiting_for_cluster();

}  // namespace autosched::emulator::ptx
