// Stores each stamp (20 bytes) only once for all lanes of a warp that share it. Marks (4 bytes) refer to stamps.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "machine/part.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator::global_shadow {

namespace {

constexpr std::size_t fewest = GlobalUses::fewest;

bool same(const Stamp& a, const Stamp& b) {
  return a.epoch == b.epoch && a.fences == b.fences && a.agent == b.agent && a.site == b.site &&
         a.atomic == b.atomic && a.narrow == b.narrow && a.constant == b.constant;
}

void clear(Machine& machine) {
  std::vector<Mark> moved(machine.global_uses.stamps.size(), 0);
  std::vector<Stamp> kept(1);
  std::size_t marks = 0;
  for_marks(machine, [&](Mark* first, std::size_t count) {
    marks += count;
    for (Mark* mark = first; mark != first + count; ++mark) {
      if (*mark == 0 || (*mark & apart) == apart) continue;
      Mark& number = moved[*mark & numbers];
      if (number == 0) {
        number = static_cast<Mark>(kept.size());
        kept.push_back(machine.global_uses.stamps[*mark & numbers]);
      }
      *mark = (*mark & ~numbers) | number;
    }
  });
  machine.global_uses.stamps = std::move(kept);
  std::fill_n(machine.global_uses.latest, GlobalUses::num_latest, Mark{0});
  machine.global_uses.full = std::min<std::size_t>(
      std::max({fewest, 2 * machine.global_uses.stamps.size(), machine.global_uses.stamps.size() + marks / 64}), numbers);
  if (machine.global_uses.stamps.size() < machine.global_uses.full) return;
  std::fputs("emulator: more writes and reads are remembered than there is room for\n", stderr);
  std::exit(1);
}

}  // namespace

Mark mark_of(Machine& machine, const Stamp& stamp) {
  GlobalUses& uses = machine.global_uses;
  const unsigned lane = lane_of(stamp.agent);
  Stamp first = stamp;
  first.agent = static_cast<Agent>(stamp.agent - lane);
  const unsigned kind = unsigned{stamp.atomic} * 2 + unsigned{stamp.constant};
  Mark& at = uses.latest[(stamp.site * 4 + kind + warp_of(stamp.agent) * 97) % GlobalUses::num_latest];
  if (at == 0 || !same(uses.stamps[at], first)) {
    if (uses.stamps.size() >= uses.full) clear(machine);
    at = static_cast<Mark>(uses.stamps.size());
    uses.stamps.push_back(first);
  }
  return at | lane << lane_shift;
}

}  // namespace autosched::emulator::global_shadow

AUTOSCHED_PART(global_shadow::GlobalUses);
