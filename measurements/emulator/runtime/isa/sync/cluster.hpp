// Synchronisation of the blocks of a cluster.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_cluster(Machine& machine);
// A fence by some lanes that a relaxed arrival at the cluster's barrier may publish.
void note_fence(Warp& w, Lanes lanes);
// Reports the threads that wait for blocks of the cluster, or for registers, if no thread can continue.
void report_waiting_for_cluster(Machine& machine);

}  // namespace autosched::emulator::ptx
