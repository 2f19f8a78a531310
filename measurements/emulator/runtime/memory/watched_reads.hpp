// Reads of what another thread writes, which are faults where something comes of the value (isa/values/dropped.cpp).
#pragma once
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

// What comes of a value that was read while another thread writes it: where nothing does, the finding
// of that kind at self->site is a note. ``just_now``: what the reader has done before makes no difference.
void watch_read(Machine& machine, Kind kind, SiteIndex load, Who reader, bool just_now, const char* address = nullptr,
                unsigned bytes = 0);
// The same of a read of shared memory before a write at self->site.
void watch_earlier_read(Machine& machine, SiteIndex load, Who reader, Who writer, unsigned address);
// Such a finding is a fault for other reasons, too.
void confirm_race(Machine& machine, Kind kind, SiteIndex site);
void settle_watched_reads(Machine& machine);  // of the running blocks, which have ended
void lower_harmless_races(Machine& machine);  // the launch has ended
// Whether a store stores nothing but constants.
bool stores_constant(Machine& machine, SiteIndex store);
// Whether a decision depends on what an instruction loads, as on a flag.
bool decides(Machine& machine, SiteIndex load);
// Whether what is loaded comes to nothing in any case.
bool goes_nowhere(Machine& machine, SiteIndex load);
// Whether what a load has read has been used, so that it has been read indeed, before a store in the text of the program:
// by the same thread, or with a barrier in between.
bool used_before_store(Machine& machine, SiteIndex load, SiteIndex store, bool same_thread);
// The same before something that other blocks can see: a strong store, or an atomic.
bool used_before_signal(Machine& machine, SiteIndex load);

}  // namespace autosched::emulator
