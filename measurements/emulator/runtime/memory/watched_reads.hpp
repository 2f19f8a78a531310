// Reads of data that another thread writes, which are faults if the value has an effect (isa/values/dropped.cpp).
#pragma once
#include <string>

#include "machine/machine.hpp"

namespace autosched::emulator {

// Watches a value that was read while another thread writes it: without an effect, the finding of that kind at
// self->site is a note. ``just_now``: only later actions of the reader matter.
void watch_read(Machine& machine, Kind kind, SiteIndex load, Who reader, bool just_now, const char* address = nullptr,
                unsigned bytes = 0);
// The same for a read of shared memory before a write at self->site.
void watch_earlier_read(Machine& machine, SiteIndex load, Who reader, Who writer, unsigned address);
// Records that such a finding is a fault for another reason.
void confirm_race(Machine& machine, Kind kind, SiteIndex site);
void settle_watched_reads(Machine& machine);  // of the running blocks, which have ended
void lower_harmless_races(Machine& machine);  // called after the launch
// True if an instruction only stores constants.
bool stores_constant(Machine& machine, SiteIndex store);
// True if a decision depends on what an instruction loads, such as a flag.
bool decides(Machine& machine, SiteIndex load);
// True if the loaded value cannot affect anything.
bool goes_nowhere(Machine& machine, SiteIndex load);
// True if the loaded value has been used, so that the read has completed, before a store in the kernel's text: by the
// same thread, or with a barrier in between.
bool used_before_store(Machine& machine, SiteIndex load, SiteIndex store, bool same_thread);
// The same before something that other blocks can observe: a strong store, or an atomic.
bool used_before_signal(Machine& machine, SiteIndex load);

}  // namespace autosched::emulator
