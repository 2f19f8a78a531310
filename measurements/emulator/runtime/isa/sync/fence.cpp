// fence and membar.
#include "isa/warps.hpp"
#include "isa/access/memory.hpp"
#include "isa/sync/cluster.hpp"

namespace autosched::emulator::ptx {
namespace {

void fence(Warp& w, const Instruction& i, Lanes active) {
  Machine& machine = *w.machine;
  const bool narrow = (i.flags & block_scope) != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    machine.self->site = i.site;
    fence_thread(machine, narrow);
  });
  if (!narrow) note_fence(w, active);
}

constexpr Row fence_table[] = {
    {"fence", fence, block_scope, ":"},
};

}  // namespace

const Rows fence_rows{std::begin(fence_table), std::end(fence_table)};

}  // namespace autosched::emulator::ptx
