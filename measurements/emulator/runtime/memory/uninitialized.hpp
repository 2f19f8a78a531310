// Reads of memory that nobody had written (isa/values/undefined.cpp).
#pragma once
#include <functional>
#include <string>

#include "report.hpp"

namespace autosched::emulator {

// Where a load read memory that nobody had written, in words; nullptr where none did.
struct Uninitialized {
  Kind kind;
  std::string text;
};
const Uninitialized* uninitialized_at(SiteIndex site);
void note_uninitialized(Kind kind, SiteIndex site, const std::function<std::string()>& text);
// What was read without a value, or decided upon without effect, where nothing has come of it: notes of the launch.
void report_unused_values();

}  // namespace autosched::emulator
