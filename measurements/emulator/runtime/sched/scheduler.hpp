// The blocks that run together, for who decides which do (residents.cpp).
#pragma once
#include "machine/machine.hpp"

namespace autosched::emulator {

// One of the running blocks that gets the answer that it knows; nullptr where there is none.
const Thread* waiting_thread(Machine& machine);
// Runs the whole grid. Returns false where the launch was ended by a deadlock.
bool run_grid(Machine& machine);

// What came of a turn: all threads have exited; they wait for others, or have had their turn; nobody can ever go on.
enum class Turn { ended, waits, stuck };

// Makes the block (or cluster) `block_index` ready to run, in epochs from `first` on.
void start_blocks(Machine& machine, Epoch first);
// Lets every warp that can run up to its next wait, until nobody can, or until all have asked in vain for a while, where
// there are `others` that may run meanwhile.
Turn run_blocks(Machine& machine, bool others);
Turn run_step(Machine& machine);
// Whether so many blocks, each of which has asked again and again, wait for ever.
bool wait_in_vain(Machine& machine, unsigned resident);
// Nobody can go on: says who waits for whom.
void report_deadlock(Machine& machine);
void choose_clusters(Machine& machine);

}  // namespace autosched::emulator
