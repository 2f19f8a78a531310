// Scheduling of the blocks that run together, which residents.cpp selects.
#pragma once
#include "machine/machine.hpp"

namespace autosched::emulator {

// Returns a thread of the running blocks that polls an unchanged value, or nullptr.
const Thread* waiting_thread(Machine& machine);
// Runs the whole grid. Returns false if a deadlock ended the launch.
bool run_grid(Machine& machine);

// Result of running a block for a while: all threads have exited; they wait for other blocks, or their turn has ended;
// or no thread can ever continue.
enum class Turn { ended, waits, stuck };

// Prepares the block (or cluster) `block_index`, in epochs from `first` on.
void start_blocks(Machine& machine, Epoch first);
// Runs each runnable warp up to its next wait, until none can run, or (if there are `others` that may run) until all
// have polled unsuccessfully for a while.
Turn run_blocks(Machine& machine, bool others);
Turn run_step(Machine& machine);
// True if all resident blocks have polled unsuccessfully so often that they are in a deadlock.
bool wait_in_vain(Machine& machine, unsigned resident);
// Reports which threads wait for which, if none can continue.
void report_deadlock(Machine& machine);
void choose_clusters(Machine& machine);

}  // namespace autosched::emulator
