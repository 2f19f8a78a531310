// fence, membar and griddepcontrol.
#include "isa/warps.hpp"
#include "isa/access/memory.hpp"
#include "isa/sync/cluster.hpp"
#include "memory/global/dependence.hpp"

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

template <void Each(Machine&)>
void control_launches(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    run_as(w, k);
    w.machine->self->site = i.site;
    Each(*w.machine);
  });
}

constexpr Row fence_table[] = {
    {"fence", fence, block_scope, ":"},
    {"griddepcontrol.wait", control_launches<wait_for_launches>, 0, ":"},
    {"griddepcontrol.launch_dependents", control_launches<launch_dependents>, 0, ":"},
};

}  // namespace

const Rows fence_rows{std::begin(fence_table), std::end(fence_table)};

}  // namespace autosched::emulator::ptx
