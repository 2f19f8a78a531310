// Barriers of the threads of a block.
#pragma once
#include <utility>
#include <vector>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Called when all live threads of a warp have reached a barrier. Returns false for invalid arguments. If the barrier
// completes, `completed` lists the warps that continue.
bool arrive_at_barrier(Machine& machine, unsigned w, int id, int count, bool waits, std::vector<unsigned>& completed);
// Called when all threads of a warp have exited: barriers of the whole block then wait only for the other warps (Volta
// and later). Returns the indices of the barriers that complete, each with the warps that continue.
std::vector<std::pair<int, std::vector<unsigned>>> leave_barriers(Machine& machine, unsigned w);
// Reports barriers at which threads wait for threads that never arrive.
void report_waiting_at_barriers(Machine& machine);
void start_block_barriers(Machine& machine);

}  // namespace autosched::emulator
