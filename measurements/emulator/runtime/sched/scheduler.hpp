// The blocks that run together, for the code that decides which ones do (residents.cpp).
#pragma once
#include "machine/machine.hpp"

namespace autosched::emulator {

// Returns a running block that polls and gets an unchanged answer, or nullptr.
const Thread* waiting_thread(Machine& machine);
// Runs the whole grid. Returns false if a deadlock ended the launch.
bool run_grid(Machine& machine);

// Result of running a block for a while: all threads have exited; they wait for others; they have had their turn; or no
// thread can ever continue.
enum class Turn { ended, waits, stuck };

// Makes the block (or cluster) `block_index` ready to run, in epochs from `first` on.
void start_blocks(Machine& machine, Epoch first);
// Lets each runnable warp run up to its next wait, until none can run, or until all have polled in vain for a while, if
// there are `others` that may run in the meantime.
Turn run_blocks(Machine& machine, bool others);
Turn run_step(Machine& machine);
// True if all resident blocks have polled in vain often enough to be in a deadlock.
bool wait_in_vain(Machine& machine, unsigned resident);
// Reports which threads wait for which, if none can continue.
void report_deadlock(Machine& machine);
void choose_clusters(Machine& machine);

}  // namespace autosched::emulator
