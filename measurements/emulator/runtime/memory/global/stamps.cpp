// Stamps, each kept once for the lanes of a warp that share it: an element's marks have 4 bytes, not 20.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "memory/global/shadow.hpp"

namespace autosched::emulator::global_shadow {

std::vector<Stamp> stamps(1);

namespace {

constexpr std::size_t fewest = std::size_t{1} << 16;  // between two clearances

std::vector<Mark> latest(1u << 12, 0);   // by site and warp: where one probably is
std::size_t full = fewest;               // when to look for those that no mark names any more

bool same(const Stamp& a, const Stamp& b) {
  return a.epoch == b.epoch && a.fences == b.fences && a.who == b.who && a.site == b.site && a.atomic == b.atomic &&
         a.narrow == b.narrow && a.constant == b.constant;
}

void clear() {
  std::vector<Mark> moved(stamps.size(), 0);
  std::vector<Stamp> kept(1);
  std::size_t marks = 0;
  for_marks([&](Mark* first, std::size_t count) {
    marks += count;
    for (Mark* mark = first; mark != first + count; ++mark) {
      if (*mark == 0 || (*mark & apart) == apart) continue;
      Mark& number = moved[*mark & numbers];
      if (number == 0) {
        number = static_cast<Mark>(kept.size());
        kept.push_back(stamps[*mark & numbers]);
      }
      *mark = (*mark & ~numbers) | number;
    }
  });
  stamps = std::move(kept);
  std::fill(latest.begin(), latest.end(), 0);
  full = std::min<std::size_t>(std::max({fewest, 2 * stamps.size(), stamps.size() + marks / 64}), numbers);
  if (stamps.size() < full) return;
  std::fputs("emulator: more writes and reads are remembered than there is room for\n", stderr);
  std::exit(1);
}

}  // namespace

Mark mark_of(const Stamp& stamp) {
  const unsigned lane = lane_of(stamp.who);
  Stamp first = stamp;
  first.who = static_cast<Who>(stamp.who - lane);
  const unsigned kind = unsigned{stamp.atomic} * 2 + unsigned{stamp.constant};
  Mark& at = latest[(stamp.site * 4 + kind + warp_of(stamp.who) * 97) % latest.size()];
  if (at == 0 || !same(stamps[at], first)) {
    if (stamps.size() >= full) clear();
    at = static_cast<Mark>(stamps.size());
    stamps.push_back(first);
  }
  return at | lane << lane_shift;
}

}  // namespace autosched::emulator::global_shadow
