// Threads of the host. When a wait of one thread returns, it counts as a wait of all threads, because synchronisation
// between them is not tracked.
#pragma once

namespace autosched::program {

// Records that the running thread has ended a call, or has accessed memory that pending work uses.
void note_action();
bool has_other_threads();
// Called before a wait returns: lets other threads execute work that is not ordered after it. Returns immediately if
// there are no other threads.
void let_others_act();

}  // namespace autosched::program
