// Reads of memory that nobody had written, or of which two threads have written one value each (isa/values/undefined.cpp).
#pragma once
#include <functional>
#include <string>

#include "machine/report.hpp"

namespace autosched::emulator {

struct Machine;

// Where a load read memory that nobody had written, in words; nullptr where none did.
struct Uninitialized {
  Kind kind;
  std::string text;
  SiteIndex other;  // of the access that it is about, too (0: none)
};
const Uninitialized* uninitialized_at(Machine& machine, SiteIndex site);
void note_uninitialized(Machine& machine, Kind kind, SiteIndex site, const std::function<std::string()>& text, SiteIndex other = 0);
// Something comes of it: a fault. False where nothing was noted of that site.
bool report_uninitialized(Machine& machine, SiteIndex origin);
// What was read without a value, or decided upon without effect, where nothing has come of it: notes of the launch.
void report_unused_values(Machine& machine);

}  // namespace autosched::emulator
