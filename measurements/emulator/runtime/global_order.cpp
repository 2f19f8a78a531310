// Happens-before between blocks: what one publishes by a fence followed by an atomic, and who has read it by an atomic
// followed by a fence.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "global_shadow.hpp"

namespace autosched::emulator {
namespace global_shadow {

bool any_release = false;

namespace {

// What a block has published by a fence followed by an atomic: all of epochs up to covered[warp], and of each thread
// what came before so many of its fences.
struct Release {
  unsigned block, rank;
  Epoch begin;
  Epoch covered[max_warps] = {};
  std::vector<std::uint32_t> fences;

  bool covers(const Stamp& s) const {
    if (s.epoch < begin || s.epoch >= end_of_block(block)) return false;
    if (s.epoch <= covered[warp_of(s.who)]) return true;
    return s.fences < fences[warp_of(s.who) * warp_size + lane_of(s.who)];
  }
};
using ReleasePointer = std::shared_ptr<const Release>;

// A release this block has read through an atomic; it counts for those who are ordered behind a later fence.
struct Acquire {
  ReleasePointer release;
  Who who;  // the atomic
  Epoch epoch;
  Epoch fence_of_warp[max_warps] = {};  // first fence behind the atomic by some lane of each warp; 0: none
  std::vector<bool> fenced;             // by thread: has itself fenced behind the atomic

  bool visible_to(const Thread& t) const {
    if (fenced[t.linear]) return true;
    for (unsigned w = 0; w < warp_count; ++w) {
      if (fence_of_warp[w] != 0 && fence_of_warp[w] <= clocks.seen(t.warp, w)) return true;
    }
    return false;
  }
};

std::unordered_map<std::uintptr_t, std::vector<ReleasePointer>> released_at;  // by address of the atomic
std::vector<Acquire> acquires;                                                // of the running block
unsigned fences_in_block = 0;
struct {
  ReleasePointer release;
  unsigned fences = 0;
  Epoch epoch = 0;
  Who who = 0;
} latest_release;

// What this thread's fences, and those of others that are ordered before now, cover.
ReleasePointer current_release() {
  if (fences_in_block == 0) return nullptr;
  const Epoch epoch = clocks.now[self->warp];
  if (latest_release.release != nullptr && latest_release.fences == fences_in_block && latest_release.epoch == epoch &&
      latest_release.who == self->who) {
    return latest_release.release;
  }
  auto release = std::make_shared<Release>();
  release->block = block_index;
  release->rank = self->rank;
  release->begin = clocks.first;
  release->fences.assign(warp_count * warp_size, 0);
  bool any = false;
  for (const Thread& t : threads) {
    for (const Fence& fence : t.last_fences) {
      if (fence.count == 0 || !clocks.ordered(t.who, fence.epoch, self->who)) continue;
      for (unsigned w = 0; w < warp_count; ++w) release->covered[w] = std::max(release->covered[w], fence.seen[w]);
      release->fences[t.linear] = fence.count;
      any = true;
      break;
    }
  }
  latest_release = {any ? release : nullptr, fences_in_block, epoch, self->who};
  return latest_release.release;
}

}  // namespace

bool acquired(const Stamp& before) {
  for (auto a = acquires.rbegin(); a != acquires.rend(); ++a) {
    if (a->release->covers(before) && a->visible_to(*self)) return true;
  }
  return false;
}

void acquire_from(const void* address) {
  const auto found = released_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == released_at.end()) return;
  for (const ReleasePointer& release : found->second) {
    if (release->block == block_index && release->rank == self->rank) continue;
    const bool known = std::any_of(acquires.begin(), acquires.end(),
                                   [&](const Acquire& a) { return a.release == release && a.who == self->who; });
    if (known) continue;
    acquires.push_back({release, self->who, clocks.now[self->warp], {}, std::vector<bool>(threads.size())});
  }
}

void synchronize(void* address) {
  acquire_from(address);
  std::vector<ReleasePointer>& here = released_at[reinterpret_cast<std::uintptr_t>(address)];
  auto publish = [&](const ReleasePointer& release) {
    if (std::find(here.begin(), here.end(), release) == here.end()) here.push_back(release);
    any_release = true;
  };
  if (const ReleasePointer mine = current_release()) {
    publish(mine);
    // Causality is transitive: what this thread has acquired goes on to the next.
    for (const Acquire& a : acquires) {
      if (a.visible_to(*self)) publish(a.release);
    }
  }
}

void forget_releases(const void* address) { released_at.erase(reinterpret_cast<std::uintptr_t>(address)); }

}  // namespace global_shadow

void start_block_global() {
  global_shadow::acquires.clear();
  global_shadow::fences_in_block = 0;
  global_shadow::latest_release = {};
}

void fence_device() {
  ++global_shadow::fences_in_block;
  ++self->fences;
  self->last_fences[1] = self->last_fences[0];
  Fence& fence = self->last_fences[0];
  fence.epoch = clocks.now[self->warp];
  fence.count = self->fences;
  for (unsigned w = 0; w < warp_count; ++w) fence.seen[w] = clocks.seen(self->warp, w);
  for (global_shadow::Acquire& a : global_shadow::acquires) {
    if (!clocks.ordered(a.who, a.epoch, self->who)) continue;
    a.fenced[self->linear] = true;
    if (a.fence_of_warp[self->warp] == 0) a.fence_of_warp[self->warp] = fence.epoch;
  }
}

}  // namespace autosched::emulator
