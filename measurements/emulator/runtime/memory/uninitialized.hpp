// Reads of memory that was never written, or to which two threads have written different values
// (isa/values/undefined.cpp).
#pragma once
#include <functional>
#include <string>

#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// The kind and the message of a finding about a read of undefined memory, which is only reported if the value is used.
struct Uninitialized {
  Kind kind;
  std::string text;
  SiteIndex other;  // site of the other access involved; 0: none
};
const Uninitialized* uninitialized_at(Machine& machine, SiteIndex site);
void note_uninitialized(Machine& machine, Kind kind, SiteIndex site, const std::function<std::string()>& text, SiteIndex other = 0);
// Called when a value that was read at `origin` is used: reports the recorded finding as a fault. Returns false if
// nothing was recorded for this site.
bool report_uninitialized(Machine& machine, SiteIndex origin);
// Reports, as notes, the undefined reads and undefined branch conditions that had no effect.
void report_unused_values(Machine& machine);

}  // namespace autosched::emulator
