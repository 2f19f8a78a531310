// Happens-before by flags between threads that run together (PTX ISA, memory consistency model: release and acquire
// patterns, and synchronizes-with). One thread executes a fence and then writes a flag; another reads the flag and then
// executes a fence. The first thread's actions before its fence happen before the second thread's actions after its own
// fence. Barriers and mbarriers do not need this.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "machine/part.hpp"
#include "machine/machine.hpp"
#include "memory/shared/shadow.hpp"
#include "order/block_order.hpp"

namespace autosched::emulator {

// Events that threads of the running blocks have released and observed through flags.
struct BlockOrder : Unit {
  using Unit::Unit;

  // Events that the writers of a flag have released.
  struct Release {
    std::shared_ptr<const Knowledge> knowledge;
    std::uint64_t event;  // identifies this release
    unsigned rank;
    bool narrow;
  };
  struct Order {
    std::shared_ptr<const Knowledge> fenced;  // events before the thread's last fence
    bool narrow = false;
    std::vector<Release> observed;  // releases that the thread has observed since that fence
  };
  PerBlock<std::vector<Order>> orders{parking};  // state of each thread, by its index
  PerBlock<std::unordered_map<std::uint64_t, std::vector<Release>>> flags{parking};
  std::uint64_t events = 0;
};

namespace {
using Release = BlockOrder::Release;
using Order = BlockOrder::Order;

constexpr std::uint64_t shared_flag = std::uint64_t{1} << 63;

std::uint32_t living_lanes(Machine& machine) {
  std::uint32_t lanes = 0;
  for (unsigned lane = 0; lane < machine.warp_lanes[machine.self->warp]; ++lane) {
    lanes |= static_cast<std::uint32_t>(machine.threads[machine.self->warp * warp_size + lane].state != State::exited) << lane;
  }
  return lanes;
}

}  // namespace

void start_block_order(Machine& machine) {
  machine.block_order.orders.assign(machine.threads.size(), {});
  machine.block_order.flags.clear();
}

std::uint64_t flag_in_shared(Machine& machine, unsigned address) {
  return shared_flag | shared_shadow::find(machine, address, 1, false);
}

void fence_block(Machine& machine, bool narrow) {
  if (!machine.launch.check) return;
  Order& mine = machine.block_order.orders[machine.self->linear];
  const unsigned w = machine.self->warp;
  for (const Release& r : mine.observed) {
    if ((narrow || r.narrow) && r.rank != machine.self->rank) continue;
    machine.clocks.learn_alone(w, 1u << machine.self->lane, living_lanes(machine), r.event, *r.knowledge, w, 0);
  }
  mine.observed.clear();
  auto known = std::make_shared<Knowledge>();
  machine.clocks.publish(w, 1u << machine.self->lane, false, *known);
  mine.fenced = std::move(known);
  mine.narrow = narrow;
}

void read_flag(Machine& machine, std::uint64_t flag) {
  if (machine.block_order.flags.empty()) return;
  const auto entry = machine.block_order.flags.find(flag);
  if (entry == machine.block_order.flags.end()) return;
  for (const Release& r : entry->second) {
    std::vector<Release>& seen = machine.block_order.orders[machine.self->linear].observed;
    const bool again = std::any_of(seen.begin(), seen.end(), [&](const Release& s) { return s.event == r.event; });
    if (!again) seen.push_back(r);
  }
}

void write_flag(Machine& machine, std::uint64_t flag, bool update, bool narrow) {
  if (!machine.launch.check) return;
  const Order& mine = machine.block_order.orders[machine.self->linear];
  if (!update && !machine.block_order.flags.empty()) machine.block_order.flags.erase(flag);
  if (mine.fenced == nullptr) return;
  Release next{mine.fenced, event_of_flag | ++machine.block_order.events, machine.self->rank, narrow || mine.narrow};
  std::vector<Release>& releases = machine.block_order.flags[flag];
  const auto same = std::find_if(releases.begin(), releases.end(),
                                 [&](const Release& r) { return r.rank == next.rank && r.narrow == next.narrow; });
  if (same == releases.end()) {
    releases.push_back(std::move(next));
    return;
  }
  auto both = std::make_shared<Knowledge>(*same->knowledge);
  both->join(*next.knowledge);
  next.knowledge = std::move(both);
  *same = std::move(next);
}

}  // namespace autosched::emulator

AUTOSCHED_PART(BlockOrder);
