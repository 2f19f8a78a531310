// Happens-before between threads that run together, by flags: what a thread has done before a fence is known to who reads
// a flag that the thread writes behind it, once this one has fenced too. PTX ISA, memory consistency model: release and
// acquire patterns, and synchronizes-with. Barriers and mbarriers need none of this.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "machine/machine.hpp"
#include "memory/shared/shadow.hpp"
#include "order/block_order.hpp"

namespace autosched::emulator {
namespace {

// What a flag's writers have released.
struct Release {
  std::shared_ptr<const Knowledge> what;
  std::uint64_t event;  // of its own
  unsigned rank;
  bool narrow;
};

struct Order {
  std::shared_ptr<const Knowledge> fenced;  // what the thread knew and had done at its last fence
  bool narrow = false;
  std::vector<Release> observed;  // since that
};

constexpr std::uint64_t shared_flag = std::uint64_t{1} << 63;

PerBlock<std::vector<Order>> orders;  // by thread
PerBlock<std::unordered_map<std::uint64_t, std::vector<Release>>> flags;
std::uint64_t events = 0;

std::uint32_t living_lanes() {
  std::uint32_t lanes = 0;
  for (unsigned lane = 0; lane < warp_lanes[self->warp]; ++lane) {
    lanes |= static_cast<std::uint32_t>(threads[self->warp * warp_size + lane].state != State::exited) << lane;
  }
  return lanes;
}

}  // namespace

void start_block_order() {
  orders.assign(threads.size(), {});
  flags.clear();
}

std::uint64_t flag_in_shared(unsigned address) {
  const unsigned place = shared_shadow::find(address, 1, false);
  return shared_flag | place;
}

void fence_block(bool narrow) {
  if (!launch.check) return;
  Order& mine = orders[self->linear];
  const unsigned w = self->warp;
  for (const Release& r : mine.observed) {
    if ((narrow || r.narrow) && r.rank != self->rank) continue;
    clocks.learn_alone(w, 1u << self->lane, living_lanes(), r.event, *r.what, w, 0);
  }
  mine.observed.clear();
  auto known = std::make_shared<Knowledge>();
  clocks.publish(w, 1u << self->lane, false, *known);
  mine.fenced = std::move(known);
  mine.narrow = narrow;
}

void read_flag(std::uint64_t place) {
  if (flags.empty()) return;
  const auto found = flags.find(place);
  if (found == flags.end()) return;
  for (const Release& r : found->second) {
    std::vector<Release>& seen = orders[self->linear].observed;
    const bool again = std::any_of(seen.begin(), seen.end(), [&](const Release& s) { return s.event == r.event; });
    if (!again) seen.push_back(r);
  }
}

void write_flag(std::uint64_t place, bool update, bool narrow) {
  if (!launch.check) return;
  const Order& mine = orders[self->linear];
  if (!update && !flags.empty()) flags.erase(place);
  if (mine.fenced == nullptr) return;
  Release next{mine.fenced, event_of_flag | ++events, self->rank, narrow || mine.narrow};
  std::vector<Release>& here = flags[place];
  const auto same = std::find_if(here.begin(), here.end(),
                                 [&](const Release& r) { return r.rank == next.rank && r.narrow == next.narrow; });
  if (same == here.end()) {
    here.push_back(std::move(next));
    return;
  }
  auto both = std::make_shared<Knowledge>(*same->what);
  both->join(*next.what);
  next.what = std::move(both);
  *same = std::move(next);
}

}  // namespace autosched::emulator
