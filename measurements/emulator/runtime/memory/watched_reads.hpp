// Reads of data that another thread writes, which are faults if the value has an effect (isa/values/dropped.cpp).
#pragma once
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Watches a value that was read in a race: if it has no effect, the finding of this kind at self->site becomes a note.
// ``just_now``: the read happens now, so only later actions of the reader matter.
void watch_read(Machine& machine, Kind kind, SiteIndex load, Agent reader, bool just_now,
                const char* address = nullptr, unsigned bytes = 0);
// Watches a value that `reader` has read from shared memory, and that `writer` now overwrites at self->site in a race.
void watch_earlier_read(Machine& machine, SiteIndex load, Agent reader, Agent writer, unsigned address);
// Records that a finding remains a fault even if the value that was read has no effect.
void confirm_race(Machine& machine, Kind kind, SiteIndex site);
void settle_watched_reads(Machine& machine);  // called when the running blocks have ended
// Called after the launch. If the reads of a finding had no effect, turns the finding into a note.
void lower_harmless_races(Machine& machine);
// True if the instruction at a site only stores constants.
bool stores_constant(Machine& machine, SiteIndex store);
// True if a decision depends on the value that the instruction at a site loads, such as a flag.
bool decides(Machine& machine, SiteIndex load);
// True if the loaded value cannot affect anything.
bool goes_nowhere(Machine& machine, SiteIndex load);
// True if the kernel's code uses the loaded value before a store, so that the read has completed: either one thread
// executes the read and the store, or a barrier is in between.
bool used_before_store(Machine& machine, SiteIndex load, SiteIndex store, bool same_thread);
// True if the kernel's code uses the loaded value before something that other blocks can observe: a strong store, or an
// atomic.
bool used_before_signal(Machine& machine, SiteIndex load);

}  // namespace autosched::emulator
