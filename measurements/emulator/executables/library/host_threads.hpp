// Threads of the host. A wait of one thread counts as a wait of all threads, because synchronisation between host
// threads is not tracked.
#pragma once

namespace autosched::program {

// Records that the running thread has completed a call, or has accessed memory that pending work uses.
void note_action();
bool has_other_threads();
// Called before a wait returns. Pauses briefly, so that other host threads can submit work before the wait ends. Such
// work is not ordered after the wait, so its races can be found. Returns immediately if there are no other threads.
void let_others_act();

}  // namespace autosched::program
