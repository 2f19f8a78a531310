// Warps of the resident blocks, and early termination of a launch.
#include "machine/part.hpp"
#include "isa/warps.hpp"
#include "memory/counting.hpp"
#include "memory/global/buffers.hpp"

#include <cstdlib>

namespace autosched::emulator::ptx {

Lanes live_lanes(const Warp& w) {
  Lanes lanes = 0;
  for (unsigned k = 0; k < w.machine->warp_lanes[w.index]; ++k) {
    lanes |= static_cast<Lanes>(w.thread[k].state != State::exited) << k;
  }
  return lanes;
}

[[noreturn]] void stop_launch(Machine& machine, emulator::Kind kind, SiteIndex site, const char* message) {
  if (count_finding(machine.report, kind, site))
    write_finding(machine.report, kind, site, "%s: %s", describe_self(machine).c_str(), message);
  keep_writes(machine);
  report_counts(machine);
  report_end(machine.report, "stopped", site, message);
  std::_Exit(0);
}

}  // namespace autosched::emulator::ptx

AUTOSCHED_PART(ptx::Warps);
