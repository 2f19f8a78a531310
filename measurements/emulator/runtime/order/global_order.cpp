// Happens-before between blocks: a block publishes earlier actions by a fence followed by an atomic, and another block
// acquires them by an atomic followed by a fence.
#include <algorithm>
#include <bitset>
#include <memory>
#include <unordered_map>

#include "machine/part.hpp"
#include "memory/global/shadow.hpp"
#include "order/global_order.hpp"

namespace autosched::emulator::global_shadow {

// A filter that tests if an address may be in a map. It avoids most map look-ups, which take a division, because most
// queried addresses are not in the map.
class AddressFilter {
 public:
  void add(const void* address) { bits_[index(address)] = true; }
  bool may_hold(const void* address) const { return bits_[index(address)]; }
  void clear() { bits_.reset(); }

 private:
  static constexpr unsigned log_bits = 12;
  static std::size_t index(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) * std::uint64_t{0x9e3779b97f4a7c15u} >> (64 - log_bits);
  }
  std::bitset<std::size_t{1} << log_bits> bits_;
};

// Actions that blocks have published, and the blocks that are ordered after them.
struct GlobalOrder : Unit {
  using Unit::Unit;

  // Actions that a block has published by a fence followed by an atomic: all actions in `covered`, and the actions of
  // each thread before its fence with the number `fences[thread]`.
  struct Release {
    unsigned block = 0, rank = 0;
    View covered;
    std::vector<std::uint32_t> fences;

    // True if the release covers an action of its block.
    bool covers(const Stamp& s) const {
      if (covered.holds(s.agent, s.epoch)) return true;
      return s.fences < fences[warp_of(s.agent) * warp_size + lane_of(s.agent)];
    }
    bool holds(const Release& other) const {
      const auto none_less = [](const auto& a, const auto& b) {
        return std::equal(a.begin(), a.end(), b.begin(), [](auto x, auto y) { return x >= y; });
      };
      return none_less(covered.up_to, other.covered.up_to) && none_less(fences, other.fences) &&
             std::all_of(other.covered.grants.begin(), other.covered.grants.end(),
                         [&](const Grant& g) { return covered.holds(g.agent, g.epoch); });
    }
  };
  using ReleasePointer = std::shared_ptr<const Release>;
  // A release that an atomic of this block has observed. It applies to threads that are ordered after a fence that
  // follows the atomic.
  struct Acquire {
    ReleasePointer release;
    Agent agent;  // the thread that executed the atomic
    Epoch epoch;
    Epoch fence_of_warp[max_warps] = {};  // for each warp: epoch of its first fence after the atomic; 0: none
    std::vector<bool> fenced;             // by thread: whether this thread has executed a fence after the atomic
    unsigned fences = 0;                  // number of true elements of `fenced`
    std::vector<Grant> fencers;           // threads that have executed a fence, with the fences' epochs

    bool visible_to(Machine& machine, const Thread& t) const {
      if (fenced[t.linear]) return true;
      for (unsigned w = 0; w < machine.warp_count; ++w) {
        if (fence_of_warp[w] != 0 && fence_of_warp[w] <= machine.clocks.seen(t.warp, w)) return true;
      }
      return machine.clocks.knows_lanes(t.warp) && visible_from_lanes(machine, t);
    }
    [[gnu::noinline]] bool visible_from_lanes(Machine& machine, const Thread& t) const {
      return std::any_of(fencers.begin(), fencers.end(),
                         [&](const Grant& f) { return machine.clocks.ordered(f.agent, f.epoch, t.agent); });
    }
    bool visible_to_all(Machine& machine) const {
      for (unsigned w = 0; w < machine.warp_count; ++w) {
        if (fence_of_warp[w] == 0) continue;
        unsigned v = 0;
        while (v < machine.warp_count && fence_of_warp[w] <= machine.clocks.seen(v, w)) ++v;
        if (v == machine.warp_count) return true;
      }
      return false;
    }
  };
  // The acquires of the running block, the releases that all its threads have acquired, and its latest release.
  struct Learnt {
    std::vector<Acquire> acquires;
    // for each releasing block: its releases that all threads have acquired
    std::unordered_map<unsigned, std::vector<ReleasePointer>> by_all;
    unsigned fences = 0;
    struct {
      ReleasePointer release;
      unsigned fences = 0;
      Epoch epoch = 0;
      Agent agent = 0;
    } latest_release;
  };
  // Events that precede a strong write of a thread, whether or not a fence is in between: the events of the thread's
  // own block, and the events of other blocks that the thread had already observed.
  struct Shown {
    unsigned block, rank;
    View seen;
    // indices of earlier entries of all_shown, which contain the actions of other blocks
    std::vector<std::uint32_t> predecessors;
  };
  struct Glimpse {
    std::uint32_t index;  // in all_shown
    Agent agent;
    Epoch epoch;
  };
  std::unordered_map<std::uintptr_t, std::vector<ReleasePointer>> released_at;  // by address of the atomic
  AddressFilter released;  // addresses in released_at
  PerBlock<Learnt> learnt{parking};
  std::vector<Shown> all_shown;
  std::unordered_map<std::uintptr_t, std::uint32_t> shown_at;  // index of the last entry of all_shown, by address
  AddressFilter shown;  // addresses in shown_at
  PerBlock<std::vector<Glimpse>> glimpses{parking};  // entries that the running block has read
};

namespace {
using Release = GlobalOrder::Release;
using ReleasePointer = GlobalOrder::ReleasePointer;
using Acquire = GlobalOrder::Acquire;
using Learnt = GlobalOrder::Learnt;
using Shown = GlobalOrder::Shown;
using Glimpse = GlobalOrder::Glimpse;
}  // namespace

namespace {

// Adds a release to a list. Releases of the same block are merged.
void add(std::vector<ReleasePointer>& releases, const ReleasePointer& next) {
  for (ReleasePointer& known : releases) {
    if (known->block != next->block || known->rank != next->rank) continue;
    if (known == next || known->holds(*next)) return;
    if (next->holds(*known)) {
      known = next;
      return;
    }
    const auto larger = [](auto x, auto y) { return std::max(x, y); };
    auto both = std::make_shared<Release>(*known);
    both->covered.join(next->covered);
    std::transform(both->fences.begin(), both->fences.end(), next->fences.begin(), both->fences.begin(), larger);
    known = std::move(both);
    return;
  }
  releases.push_back(next);
}

bool nobody_knows(Machine& machine, Agent agent, Epoch epoch) {
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    if (machine.clocks.any_knows(agent, epoch, w)) return false;
  }
  return true;
}

// True if a newly acquired release makes an older one of the same block redundant for the thread.
bool replaces(const Acquire& next, const Acquire& old) {
  return old.agent == next.agent && old.release->block == next.release->block &&
         old.release->rank == next.release->rank && next.release->holds(*old.release);
}

void settle(Machine& machine) {
  auto& acquires = machine.global_order.learnt.acquires;
  const auto settled = std::stable_partition(acquires.begin(), acquires.end(),
                                             [&machine](const Acquire& a) { return !a.visible_to_all(machine); });
  for (auto a = settled; a != acquires.end(); ++a) add(machine.global_order.learnt.by_all[a->release->block], a->release);
  acquires.erase(settled, acquires.end());
}

// The release that the running thread would publish now. It covers the actions before the thread's own fences. It also
// covers the actions before fences of other threads, if these fences are ordered before the running thread's next
// action.
ReleasePointer current_release(Machine& machine) {
  if (machine.global_order.learnt.fences == 0) return nullptr;
  const Epoch epoch = machine.clocks.now[machine.self->warp];
  auto& latest_release = machine.global_order.learnt.latest_release;
  if (latest_release.release != nullptr && latest_release.fences == machine.global_order.learnt.fences &&
      latest_release.epoch == epoch && latest_release.agent == machine.self->agent) {
    return latest_release.release;
  }
  auto release = std::make_shared<Release>();
  release->block = machine.block_index;
  release->rank = machine.self->rank;
  release->covered.up_to.assign(machine.warp_count, 0);
  release->fences.assign(machine.warp_count * warp_size, 0);
  bool any = false;
  for (const Thread& t : machine.threads) {
    for (const Fence& fence : t.last_fences) {
      if (fence.count == 0 || !machine.clocks.ordered(t.agent, fence.epoch, machine.self->agent)) continue;
      release->covered.join(fence.seen);
      release->fences[t.linear] = fence.count;
      any = true;
      break;
    }
  }
  latest_release = {any ? release : nullptr, machine.global_order.learnt.fences, epoch, machine.self->agent};
  return latest_release.release;
}

}  // namespace

bool acquired(Machine& machine, const Stamp& before) {
  if (machine.global_order.learnt.acquires.empty() && machine.global_order.learnt.by_all.empty()) return false;
  const unsigned block = block_of_epoch(machine, before.epoch);
  if (const auto known = machine.global_order.learnt.by_all.find(block); known != machine.global_order.learnt.by_all.end()) {
    for (const ReleasePointer& release : known->second) {
      if (release->covers(before)) return true;
    }
  }
  for (auto a = machine.global_order.learnt.acquires.rbegin(); a != machine.global_order.learnt.acquires.rend(); ++a) {
    if (a->release->block == block && a->release->covers(before) && a->visible_to(machine, *machine.self)) return true;
  }
  return false;
}

void acquire_from(Machine& machine, const void* address) {
  if (!machine.global_order.released.may_hold(address)) return;
  const auto entry = machine.global_order.released_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry == machine.global_order.released_at.end()) return;
  auto& acquires = machine.global_order.learnt.acquires;
  bool settled = false;
  for (const ReleasePointer& release : entry->second) {
    if (release->block == machine.block_index && release->rank == machine.self->rank) continue;
    const bool known = std::any_of(acquires.begin(), acquires.end(), [&](const Acquire& a) {
      return a.release == release && a.agent == machine.self->agent;
    });
    if (known) continue;
    if (const auto all = machine.global_order.learnt.by_all.find(release->block);
        all != machine.global_order.learnt.by_all.end() &&
        std::find(all->second.begin(), all->second.end(), release) != all->second.end()) {
      continue;
    }
    if (!settled) settle(machine);
    settled = true;
    Acquire next{release, machine.self->agent, machine.clocks.now[machine.self->warp], {}, {}, 0, {}};
    const auto old = std::find_if(acquires.begin(), acquires.end(), [&](const Acquire& a) {
      return a.fences == 0 && replaces(next, a) && nobody_knows(machine, a.agent, a.epoch);
    });
    if (old != acquires.end()) {
      old->release = release;
      old->epoch = next.epoch;
    } else {
      next.fenced.assign(machine.threads.size(), false);
      acquires.push_back(std::move(next));
    }
  }
}

void synchronize(Machine& machine, void* address) {
  acquire_from(machine, address);
  machine.global_order.released.add(address);
  std::vector<ReleasePointer>& here = machine.global_order.released_at[reinterpret_cast<std::uintptr_t>(address)];
  if (const ReleasePointer mine = current_release(machine)) {
    machine.global_uses.any_release = true;
    add(here, mine);
    // Causality is transitive: a release includes what this thread has acquired.
    for (const auto& [block, releases] : machine.global_order.learnt.by_all) {
      for (const ReleasePointer& release : releases) add(here, release);
    }
    for (const Acquire& a : machine.global_order.learnt.acquires) {
      if (a.visible_to(machine, *machine.self)) add(here, a.release);
    }
  }
}

namespace {

constexpr std::size_t most_shown = 1 << 14;

std::vector<std::uint32_t> glimpsed_by_self(Machine& machine) {
  std::vector<std::uint32_t> seen;
  for (const Glimpse& g : machine.global_order.glimpses) {
    if (machine.clocks.ordered(g.agent, g.epoch, machine.self->agent)) seen.push_back(g.index);
  }
  return seen;
}

}  // namespace

void show(Machine& machine, const void* address) {
  if (machine.global_order.all_shown.size() >= most_shown) return;
  machine.global_order.shown.add(address);
  machine.global_order.shown_at[reinterpret_cast<std::uintptr_t>(address)] =
      static_cast<std::uint32_t>(machine.global_order.all_shown.size());
  machine.global_order.all_shown.push_back({machine.block_index, machine.self->rank,
                                            machine.clocks.view_of(machine.self->warp, machine.self->lane),
                                            glimpsed_by_self(machine)});
}

void glimpse(Machine& machine, const void* address) {
  if (!machine.global_order.shown.may_hold(address)) return;
  const auto entry = machine.global_order.shown_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry == machine.global_order.shown_at.end()) return;
  const Shown& shown = machine.global_order.all_shown[entry->second];
  if (shown.block == machine.block_index && shown.rank == machine.self->rank) return;
  const Agent self = machine.self->agent;
  auto& glimpses = machine.global_order.glimpses;
  const bool known = std::any_of(glimpses.begin(), glimpses.end(), [&](const Glimpse& g) {
    return g.index == entry->second && (g.agent == self || machine.clocks.ordered(g.agent, g.epoch, self));
  });
  if (!known) glimpses.push_back({entry->second, self, machine.clocks.now[machine.self->warp]});
}

bool glimpsed(Machine& machine, const Stamp& before) {
  if (machine.global_order.glimpses.empty()) return false;
  const unsigned block = block_of_epoch(machine, before.epoch), rank = rank_of(machine, before.agent);
  std::vector<std::uint32_t> pending = glimpsed_by_self(machine);
  std::vector<bool> met(machine.global_order.all_shown.size());
  while (!pending.empty()) {
    const std::uint32_t next = pending.back();
    pending.pop_back();
    if (met[next]) continue;
    met[next] = true;
    const Shown& shown = machine.global_order.all_shown[next];
    if (shown.block == block && shown.rank == rank && shown.seen.holds(before.agent, before.epoch)) return true;
    pending.insert(pending.end(), shown.predecessors.begin(), shown.predecessors.end());
  }
  return false;
}

void forget_glimpses(Machine& machine) {
  machine.global_order.all_shown.clear();
  machine.global_order.shown_at.clear();
  machine.global_order.shown.clear();
  machine.global_order.glimpses.clear();
}

void forget_releases(Machine& machine, const void* address) {
  if (!machine.global_order.released.may_hold(address)) return;
  machine.global_order.released_at.erase(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace autosched::emulator::global_shadow

namespace autosched::emulator {

void start_block_global(Machine& machine) {
  machine.global_order.learnt = global_shadow::Learnt{};
  machine.global_order.glimpses.clear();
}

void fence_device(Machine& machine) {
  ++machine.global_order.learnt.fences;
  ++machine.self->fences;
  std::swap(machine.self->last_fences[0], machine.self->last_fences[1]);
  Fence& fence = machine.self->last_fences[0];
  fence.epoch = machine.clocks.now[machine.self->warp];
  fence.count = machine.self->fences;
  fence.seen = machine.clocks.view_of(machine.self->warp, machine.self->lane);
  fence.seen.up_to.resize(machine.warp_count, 0);  // actors other than warps are dropped
  using global_shadow::Acquire;
  auto& acquires = machine.global_order.learnt.acquires;
  bool fresh = false;
  for (Acquire& a : acquires) {
    if (a.fenced[machine.self->linear]) continue;
    if (!machine.clocks.ordered(a.agent, a.epoch, machine.self->agent)) continue;
    a.fenced[machine.self->linear] = true;
    ++a.fences;
    a.fencers.push_back({machine.self->agent, fence.epoch});
    fresh = fresh || a.agent == machine.self->agent;
    if (a.fence_of_warp[machine.self->warp] == 0) a.fence_of_warp[machine.self->warp] = fence.epoch;
  }
  if (!fresh) return;
  // Removes older acquires that a later acquire of the same thread makes redundant.
  std::vector<bool> replaced(acquires.size());
  for (std::size_t k = 0; k < acquires.size(); ++k) {
    const Acquire& old = acquires[k];
    if (old.agent != machine.self->agent || old.fences != 1 || !old.fenced[machine.self->linear]) continue;
    for (std::size_t n = k + 1; n < acquires.size() && !replaced[k]; ++n) {
      const Acquire& next = acquires[n];
      if (next.agent != machine.self->agent || !next.fenced[machine.self->linear]) continue;
      replaced[k] = global_shadow::replaces(next, old) &&
                    global_shadow::nobody_knows(machine, machine.self->agent, old.fence_of_warp[machine.self->warp]);
    }
  }
  std::size_t k = 0;
  std::erase_if(acquires, [&](const Acquire&) { return replaced[k++]; });
}

}  // namespace autosched::emulator

AUTOSCHED_PART(global_shadow::GlobalOrder);
