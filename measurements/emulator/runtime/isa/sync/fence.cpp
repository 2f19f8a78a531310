// fence and membar.
#include "isa/warps.hpp"
#include "isa/access/memory.hpp"
#include "isa/sync/cluster.hpp"

namespace autosched::emulator::ptx {
namespace {

void fence(Warp& w, const Instruction& i, Lanes active) {
  const bool narrow = (i.flags & block_scope) != 0;
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    self->site = i.site;
    fence_thread(narrow);
  });
  if (!narrow) note_fence(w, active);
}

constexpr Row fence_table[] = {
    {"fence", fence, block_scope, ":"},
};

}  // namespace

const Rows fence_rows{std::begin(fence_table), std::end(fence_table)};

}  // namespace autosched::emulator::ptx
