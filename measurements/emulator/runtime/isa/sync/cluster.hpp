// Synchronisation of the blocks of a cluster.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_cluster(Machine& machine);
// Records a fence of some lanes. A later relaxed arrival at the cluster's barrier publishes the events before this
// fence.
void note_fence(Warp& w, Lanes lanes);
// Reports the threads that wait for blocks of the cluster, or for registers, if no thread can continue.
void report_waiting_for_cluster(Machine& machine);

}  // namespace autosched::emulator::ptx
