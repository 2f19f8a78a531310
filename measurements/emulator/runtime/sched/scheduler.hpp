// Scheduling of blocks and their warps.
#pragma once
#include "machine/machine.hpp"

namespace autosched::emulator {

// Returns a thread of the running blocks that polls an unchanged value, or nullptr.
const Thread* waiting_thread(Machine& machine);
// Runs the whole grid. Returns false if a deadlock ended the launch.
bool run_grid(Machine& machine);

// Result of running blocks for a while. ended: all threads have exited. waits: threads wait for other blocks, or the
// turn has ended. stuck: no thread can ever continue.
enum class Turn { ended, waits, stuck };

// Starts the block (or cluster) `block_index`, with epochs from `first` on.
void start_blocks(Machine& machine, Epoch first);
// Runs each warp up to its next wait, repeatedly, until no warp can run. If other blocks could run (`may_yield`), also
// returns when all warps have polled unsuccessfully for a while.
Turn run_blocks(Machine& machine, bool may_yield);
Turn run_step(Machine& machine);
// True if all resident blocks have polled unsuccessfully so often that they are in a deadlock.
bool wait_in_vain(Machine& machine, unsigned resident);
// Reports which threads wait for which other threads, when no thread can continue.
void report_deadlock(Machine& machine);
void choose_clusters(Machine& machine);

}  // namespace autosched::emulator
