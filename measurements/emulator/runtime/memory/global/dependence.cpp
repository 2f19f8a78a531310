// Checks that a dependent launch does not access memory of earlier launches in its stream before it has waited for
// them.
#include "memory/global/dependence.hpp"

#include <algorithm>
#include <vector>

#include "machine/part.hpp"
#include "memory/global/shadow.hpp"
#include "memory/watched_reads.hpp"

namespace autosched::emulator {

using namespace global_shadow;

// Memory that is used by earlier launches that may still run during the current launch.
struct Dependence : Unit {
  using Unit::Unit;

  struct Stretch {
    const char *begin, *end;
  };
  struct Wait {
    Agent agent;
    Epoch epoch;
  };
  // index 0: ranges that earlier launches write; index 1: ranges that they read; sorted by address at the first check
  std::vector<Stretch> unfinished[2];
  bool sorted = false;
  bool waited = false;  // a block has waited before it allowed later launches to start
  PerBlock<std::vector<Wait>> waits{parking};
  bool triggered = false;  // true: the running blocks have allowed later launches to start
  Parked<bool> parked_triggered{parking, triggered};
};

void add_unfinished(Machine& machine, const void* begin, std::size_t bytes, bool only_read) {
  const auto* const first = static_cast<const char*>(begin);
  machine.dependence.unfinished[only_read ? 1 : 0].push_back({first, first + bytes});
}

void start_block_dependence(Machine& machine) {
  machine.dependence.waits.clear();
  machine.dependence.triggered = false;
}

void wait_for_launches(Machine& machine) {
  if (!machine.launch.dependent) return;
  if (!machine.dependence.triggered) machine.dependence.waited = true;
  machine.self->waited = true;
  machine.dependence.waits.push_back({machine.self->agent, machine.clocks.now[machine.self->warp]});
}

void launch_dependents(Machine& machine) { machine.dependence.triggered = true; }

bool waited_for_launches(Machine& machine) { return machine.dependence.waited; }

void global_shadow::check_dependence(Machine& machine, const Buffer& b, const void* address, int bytes, bool writes,
                                     const char* instruction) {
  Dependence& d = machine.dependence;
  if (!d.sorted) {
    for (auto& stretches : d.unfinished) {
      std::sort(stretches.begin(), stretches.end(), [](const auto& x, const auto& y) { return x.begin < y.begin; });
    }
    d.sorted = true;
  }
  const auto* const first = static_cast<const char*>(address);
  const auto in = [&](const std::vector<Dependence::Stretch>& stretches) {
    const auto behind = std::lower_bound(stretches.begin(), stretches.end(), first + bytes,
                                         [](const Dependence::Stretch& s, const char* end) { return s.begin < end; });
    return behind != stretches.begin() && std::prev(behind)->end > first;
  };
  const bool is_written = in(d.unfinished[0]);
  if (!is_written && !(writes && in(d.unfinished[1]))) return;
  const bool knows = std::any_of(d.waits.begin(), d.waits.end(), [&](const Dependence::Wait& w) {
    return machine.clocks.ordered(w.agent, w.epoch, machine.self->agent);
  });
  if (knows) {
    machine.self->waited = true;
    return;
  }
  FINDING(machine.report, global_race, machine.self->site,
          "%s: %s at %s, which the previous launch may still %s: call cudaGridDependencySynchronize before "
          "(griddepcontrol.wait, sm_90 or later)",
          describe_self(machine).c_str(), instruction, element(b, address).c_str(), is_written ? "write" : "read");
  confirm_race(machine, Kind::global_race, machine.self->site);
}

}  // namespace autosched::emulator

AUTOSCHED_PART(Dependence);
