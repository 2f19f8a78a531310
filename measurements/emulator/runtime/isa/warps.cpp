// The warps of the blocks that run together, and how a launch ends early.
#include "isa/warps.hpp"
#include "memory/counting.hpp"
#include "memory/global/buffers.hpp"

#include <cstdlib>

namespace autosched::emulator::ptx {

PerBlock<std::vector<Warp>> machine;

Lanes live_lanes(const Warp& w) {
  Lanes lanes = 0;
  for (unsigned k = 0; k < warp_lanes[w.index]; ++k) {
    lanes |= static_cast<Lanes>(w.thread[k].state != State::exited) << k;
  }
  return lanes;
}

[[noreturn]] void stop_launch(emulator::Kind kind, SiteIndex site, const char* message) {
  if (count_finding(kind, site)) write_finding(kind, site, "%s: %s", describe_self().c_str(), message);
  keep_writes();
  report_counts();
  report_end("stopped", site, message);
  std::_Exit(0);
}

}  // namespace autosched::emulator::ptx
