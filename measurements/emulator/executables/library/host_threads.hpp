// Threads of the host. A wait of one counts for all once it returns, as nobody sees how threads wait for each other.
#pragma once

namespace autosched::program {

// The running thread has ended a call, or touched memory that pending work uses.
void note_action();
bool has_other_threads();
// Before a wait returns: lets other threads do what is not ordered behind it. Where there are none, this takes no time.
void let_others_act();

}  // namespace autosched::program
