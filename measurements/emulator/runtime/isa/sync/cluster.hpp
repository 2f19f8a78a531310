// Blocks of a cluster, which wait for each other.
#pragma once
#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {

void start_block_cluster(Machine& machine);
// A fence by some lanes that a relaxed arrival at the barrier of the cluster may publish.
void note_fence(Warp& w, Lanes lanes);
// Nobody can go on: says who waits for blocks of the cluster, or for registers.
void report_waiting_for_cluster(Machine& machine);

}  // namespace autosched::emulator::ptx
