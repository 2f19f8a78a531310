// Reads of memory that was never written, or to which two threads have written different values
// (isa/values/undefined.cpp).
#pragma once
#include <functional>
#include <string>

#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// A load's read of undefined memory, in words; nullptr if there was none.
struct Uninitialized {
  Kind kind;
  std::string text;
  SiteIndex other;  // of the other access involved (0: none)
};
const Uninitialized* uninitialized_at(Machine& machine, SiteIndex site);
void note_uninitialized(Machine& machine, Kind kind, SiteIndex site, const std::function<std::string()>& text, SiteIndex other = 0);
// Called when the value is used, which is a fault. Returns false if nothing was recorded for that site.
bool report_uninitialized(Machine& machine, SiteIndex origin);
// Reports undefined reads without an effect, and decisions without an effect, as notes.
void report_unused_values(Machine& machine);

}  // namespace autosched::emulator
