// Happens-before between blocks: what one publishes by a fence followed by an atomic, and who has read it by an atomic
// followed by a fence.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "memory/global/shadow.hpp"
#include "order/global_order.hpp"

namespace autosched::emulator {
namespace global_shadow {

bool any_release = false;

namespace {

// What a block has published by a fence followed by an atomic: all that is covered, and of each thread what came before
// so many of its fences.
struct Release {
  unsigned block = 0, rank = 0;
  View covered;
  std::vector<std::uint32_t> fences;

  // Of something that its block has done.
  bool covers(const Stamp& s) const {
    if (covered.holds(s.who, s.epoch)) return true;
    return s.fences < fences[warp_of(s.who) * warp_size + lane_of(s.who)];
  }
  bool holds(const Release& other) const {
    const auto none_less = [](const auto& a, const auto& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](auto x, auto y) { return x >= y; });
    };
    return none_less(covered.up_to, other.covered.up_to) && none_less(fences, other.fences) &&
           std::all_of(other.covered.grants.begin(), other.covered.grants.end(),
                       [&](const Grant& g) { return covered.holds(g.who, g.epoch); });
  }
};
using ReleasePointer = std::shared_ptr<const Release>;

// Who learns of several releases of one block learns of them as of one.
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

// A release this block has read through an atomic; it counts for those who are ordered behind a later fence.
struct Acquire {
  ReleasePointer release;
  Who who;  // the atomic
  Epoch epoch;
  Epoch fence_of_warp[max_warps] = {};  // first fence behind the atomic by some lane of each warp; 0: none
  std::vector<bool> fenced;             // by thread: has itself fenced behind the atomic
  unsigned fences = 0;                  // of how many threads
  std::vector<Grant> fencers;           // these, with the epochs of their fences

  bool visible_to(const Thread& t) const {
    if (fenced[t.linear]) return true;
    for (unsigned w = 0; w < warp_count; ++w) {
      if (fence_of_warp[w] != 0 && fence_of_warp[w] <= clocks.seen(t.warp, w)) return true;
    }
    return clocks.knows_lanes(t.warp) && visible_from_lanes(t);
  }
  [[gnu::noinline]] bool visible_from_lanes(const Thread& t) const {
    return std::any_of(fencers.begin(), fencers.end(),
                       [&](const Grant& f) { return clocks.ordered(f.who, f.epoch, t.who); });
  }
  bool visible_to_all() const {
    for (unsigned w = 0; w < warp_count; ++w) {
      if (fence_of_warp[w] == 0) continue;
      unsigned v = 0;
      while (v < warp_count && fence_of_warp[w] <= clocks.seen(v, w)) ++v;
      if (v == warp_count) return true;
    }
    return false;
  }
};

std::unordered_map<std::uintptr_t, std::vector<ReleasePointer>> released_at;  // by address of the atomic

// Of the running block.
struct Learnt {
  std::vector<Acquire> acquires;
  std::unordered_map<unsigned, std::vector<ReleasePointer>> by_all;  // what all its threads know of, by block
  unsigned fences = 0;
  struct {
    ReleasePointer release;
    unsigned fences = 0;
    Epoch epoch = 0;
    Who who = 0;
  } latest_release;
};
PerBlock<Learnt> learnt;

bool nobody_knows(Who who, Epoch epoch) {
  for (unsigned w = 0; w < warp_count; ++w) {
    if (clocks.any_knows(who, epoch, w)) return false;
  }
  return true;
}

// What a thread has learnt from a block stands for what it learnt from it before, where this is of no use to others.
bool replaces(const Acquire& next, const Acquire& old) {
  return old.who == next.who && old.release->block == next.release->block && old.release->rank == next.release->rank &&
         next.release->holds(*old.release);
}

void settle() {
  auto& acquires = learnt.acquires;
  const auto settled = std::stable_partition(acquires.begin(), acquires.end(), [](const Acquire& a) { return !a.visible_to_all(); });
  for (auto a = settled; a != acquires.end(); ++a) add(learnt.by_all[a->release->block], a->release);
  acquires.erase(settled, acquires.end());
}

// What this thread's fences, and those of others that are ordered before now, cover.
ReleasePointer current_release() {
  if (learnt.fences == 0) return nullptr;
  const Epoch epoch = clocks.now[self->warp];
  auto& latest_release = learnt.latest_release;
  if (latest_release.release != nullptr && latest_release.fences == learnt.fences && latest_release.epoch == epoch &&
      latest_release.who == self->who) {
    return latest_release.release;
  }
  auto release = std::make_shared<Release>();
  release->block = block_index;
  release->rank = self->rank;
  release->covered.up_to.assign(warp_count, 0);
  release->fences.assign(warp_count * warp_size, 0);
  bool any = false;
  for (const Thread& t : threads) {
    for (const Fence& fence : t.last_fences) {
      if (fence.count == 0 || !clocks.ordered(t.who, fence.epoch, self->who)) continue;
      release->covered.join(fence.seen);
      release->fences[t.linear] = fence.count;
      any = true;
      break;
    }
  }
  latest_release = {any ? release : nullptr, learnt.fences, epoch, self->who};
  return latest_release.release;
}

}  // namespace

bool acquired(const Stamp& before) {
  if (learnt.acquires.empty() && learnt.by_all.empty()) return false;
  const unsigned block = block_of_epoch(before.epoch);
  if (const auto known = learnt.by_all.find(block); known != learnt.by_all.end()) {
    for (const ReleasePointer& release : known->second) {
      if (release->covers(before)) return true;
    }
  }
  for (auto a = learnt.acquires.rbegin(); a != learnt.acquires.rend(); ++a) {
    if (a->release->block == block && a->release->covers(before) && a->visible_to(*self)) return true;
  }
  return false;
}

void acquire_from(const void* address) {
  const auto found = released_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == released_at.end()) return;
  auto& acquires = learnt.acquires;
  bool settled = false;
  for (const ReleasePointer& release : found->second) {
    if (release->block == block_index && release->rank == self->rank) continue;
    const bool known = std::any_of(acquires.begin(), acquires.end(),
                                   [&](const Acquire& a) { return a.release == release && a.who == self->who; });
    if (known) continue;
    if (const auto all = learnt.by_all.find(release->block);
        all != learnt.by_all.end() && std::find(all->second.begin(), all->second.end(), release) != all->second.end()) {
      continue;
    }
    if (!settled) settle();
    settled = true;
    Acquire next{release, self->who, clocks.now[self->warp], {}, {}, 0, {}};
    const auto old = std::find_if(acquires.begin(), acquires.end(), [&](const Acquire& a) {
      return a.fences == 0 && replaces(next, a) && nobody_knows(a.who, a.epoch);
    });
    if (old != acquires.end()) {
      old->release = release;
      old->epoch = next.epoch;
    } else {
      next.fenced.assign(threads.size(), false);
      acquires.push_back(std::move(next));
    }
  }
}

void synchronize(void* address) {
  acquire_from(address);
  std::vector<ReleasePointer>& here = released_at[reinterpret_cast<std::uintptr_t>(address)];
  if (const ReleasePointer mine = current_release()) {
    any_release = true;
    add(here, mine);
    // Causality is transitive: what this thread has acquired goes on to the next.
    for (const auto& [block, releases] : learnt.by_all) {
      for (const ReleasePointer& release : releases) add(here, release);
    }
    for (const Acquire& a : learnt.acquires) {
      if (a.visible_to(*self)) add(here, a.release);
    }
  }
}

namespace {

// What a thread knew when it wrote strongly, with or without a fence: its block, and what it had seen of others.
struct Shown {
  unsigned block, rank;
  View seen;
  std::vector<std::uint32_t> others;  // of all that was shown
};
std::vector<Shown> all_shown;
constexpr std::size_t most_shown = 1 << 14;
std::unordered_map<std::uintptr_t, std::uint32_t> shown_at;  // by address, the last

struct Glimpse {
  std::uint32_t what;
  Who who;
  Epoch epoch;
};
PerBlock<std::vector<Glimpse>> glimpses;  // of the running block

std::vector<std::uint32_t> glimpsed_by_self() {
  std::vector<std::uint32_t> seen;
  for (const Glimpse& g : glimpses) {
    if (clocks.ordered(g.who, g.epoch, self->who)) seen.push_back(g.what);
  }
  return seen;
}

}  // namespace

void show(const void* address) {
  if (all_shown.size() >= most_shown) return;
  shown_at[reinterpret_cast<std::uintptr_t>(address)] = static_cast<std::uint32_t>(all_shown.size());
  all_shown.push_back({block_index, self->rank, clocks.view_of(self->warp, self->lane), glimpsed_by_self()});
}

void glimpse(const void* address) {
  const auto found = shown_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == shown_at.end()) return;
  const Shown& shown = all_shown[found->second];
  if (shown.block == block_index && shown.rank == self->rank) return;
  const bool known = std::any_of(glimpses.begin(), glimpses.end(), [&](const Glimpse& g) {
    return g.what == found->second && (g.who == self->who || clocks.ordered(g.who, g.epoch, self->who));
  });
  if (!known) glimpses.push_back({found->second, self->who, clocks.now[self->warp]});
}

bool glimpsed(const Stamp& before) {
  if (glimpses.empty()) return false;
  const unsigned block = block_of_epoch(before.epoch), rank = rank_of(before.who);
  std::vector<std::uint32_t> pending = glimpsed_by_self();
  std::vector<bool> met(all_shown.size());
  while (!pending.empty()) {
    const std::uint32_t next = pending.back();
    pending.pop_back();
    if (met[next]) continue;
    met[next] = true;
    const Shown& shown = all_shown[next];
    if (shown.block == block && shown.rank == rank && shown.seen.holds(before.who, before.epoch)) return true;
    pending.insert(pending.end(), shown.others.begin(), shown.others.end());
  }
  return false;
}

void forget_glimpses() {
  all_shown.clear();
  shown_at.clear();
  glimpses.clear();
}

void forget_releases(const void* address) { released_at.erase(reinterpret_cast<std::uintptr_t>(address)); }

}  // namespace global_shadow

void start_block_global() {
  global_shadow::learnt = global_shadow::Learnt{};
  global_shadow::glimpses.clear();
}

void fence_device() {
  ++global_shadow::learnt.fences;
  ++self->fences;
  std::swap(self->last_fences[0], self->last_fences[1]);
  Fence& fence = self->last_fences[0];
  fence.epoch = clocks.now[self->warp];
  fence.count = self->fences;
  fence.seen = clocks.view_of(self->warp, self->lane);
  fence.seen.up_to.resize(warp_count, 0);  // of warps alone
  using global_shadow::Acquire;
  auto& acquires = global_shadow::learnt.acquires;
  bool fresh = false;
  for (Acquire& a : acquires) {
    if (a.fenced[self->linear] || !clocks.ordered(a.who, a.epoch, self->who)) continue;
    a.fenced[self->linear] = true;
    ++a.fences;
    a.fencers.push_back({self->who, fence.epoch});
    fresh = fresh || a.who == self->who;
    if (a.fence_of_warp[self->warp] == 0) a.fence_of_warp[self->warp] = fence.epoch;
  }
  if (!fresh) return;
  // Later ones stand behind earlier ones.
  std::vector<bool> replaced(acquires.size());
  for (std::size_t k = 0; k < acquires.size(); ++k) {
    const Acquire& old = acquires[k];
    if (old.who != self->who || old.fences != 1 || !old.fenced[self->linear]) continue;
    for (std::size_t n = k + 1; n < acquires.size() && !replaced[k]; ++n) {
      const Acquire& next = acquires[n];
      if (next.who != self->who || !next.fenced[self->linear]) continue;
      replaced[k] = global_shadow::replaces(next, old) && global_shadow::nobody_knows(self->who, old.fence_of_warp[self->warp]);
    }
  }
  std::size_t k = 0;
  std::erase_if(acquires, [&](const Acquire&) { return replaced[k++]; });
}

}  // namespace autosched::emulator
