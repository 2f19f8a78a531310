// What the async proxy does to shared memory, on behalf of a thread: bulk copies, wgmma, mbarriers; and what is done to
// the shared memory of other blocks of the cluster.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "memory/shared/shadow.hpp"

namespace autosched::emulator {

using namespace shared_shadow;

namespace {

// What a thread, or a bulk copy, has last done to another block's shared memory at a line.
struct RemoteUse {
  unsigned rank;
  Who who;
  Epoch epoch;
  SiteIndex site;
};
PerBlock<std::unordered_map<std::uint64_t, RemoteUse>> remote_uses;  // by all of it but the epoch

PerBlock<std::unordered_map<unsigned, unsigned>> updates_under_way;  // by byte: reductions

bool check_bulk_write(unsigned place, int bytes, const char* async_proxy) {
  return async_proxy != nullptr ? check_async_write(place, bytes, self->who, async_proxy) : check_write(place, bytes, self->who);
}

}  // namespace

void shared_shadow::forget_remote_uses() {
  remote_uses.clear();
  updates_under_way.clear();
}

bool check_shared(unsigned address, int bytes, int alignment, const char* instruction) {
  if (find(address, bytes, false) == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return false;
  }
  check_alignment(address, alignment, instruction);
  return true;
}

void start_bulk_write(unsigned address, int bytes, const char* async_proxy) {
  has_engines = true;
  const unsigned place = find(address, bytes, false);
  if (!launch.check || place == nowhere) return;
  check_bulk_write(place, bytes, async_proxy);
  std::fill_n(pending + place, bytes, Pending{Under::bulk_copy, self->who, self->site});
}

void start_bulk_update(unsigned address, int bytes, const char* async_proxy) {
  has_engines = true;
  const unsigned place = find(address, bytes, false);
  if (!launch.check || place == nowhere) return;
  for (unsigned a = place; a < place + static_cast<unsigned>(bytes); ++a) {
    if (updates_under_way[a]++ != 0) pending[a] = Pending{};  // reductions under way at one byte do not race
  }
  const bool good = check_bulk_write(place, bytes, async_proxy) && check_under_atomics(place, bytes, self->who);
  if (good) check_taken(place, bytes, self->who);
  std::fill_n(pending + place, bytes, Pending{Under::bulk_copy, self->who, self->site});
}

void land_bulk_write(unsigned address, const unsigned char* data, int bytes, unsigned actor, Epoch epoch,
                     SiteIndex site) {
  const unsigned place = find(address, bytes, false);
  if (place == nowhere) return;
  std::memcpy(bytes_at(place), data, static_cast<std::size_t>(bytes));
  if (!launch.check) return;
  std::fill_n(pending + place, bytes, Pending{});
  std::fill_n(last_write + place, bytes, Stamp{epoch, who_of(actor, whole_warp), site});
  std::fill_n(readers + place, bytes, 0u);
  std::fill_n(together + place, bytes, 0u);
}

void land_bulk_update(unsigned address, int bytes, unsigned actor, Epoch epoch, SiteIndex site,
                      const std::function<void(unsigned char*)>& update) {
  const unsigned place = find(address, bytes, false);
  if (place == nowhere) return;
  update(bytes_at(place));
  if (!launch.check) return;
  mark_updated(place, bytes, {epoch, who_of(actor, whole_warp), site});
  for (unsigned a = place; a < place + static_cast<unsigned>(bytes); ++a) {
    if (--updates_under_way[a] == 0) pending[a] = Pending{};
  }
}

const unsigned char* read_by_engine(unsigned address, int bytes, Who me, unsigned actor, Epoch epoch,
                                    const char* instruction) {
  const unsigned place = find(address, bytes, false);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  // It is the engine that uses another block's memory: who knows that it has ended, as tcgen05.commit says, knows enough.
  if (const unsigned rank = rank_of_address(cluster_address(address)); rank != self->rank) {
    touch_block(rank, who_of(actor, whole_warp), epoch);
  }
  const unsigned char* from = bytes_at(place);
  if (!launch.check) return from;
  Stamp checked{};  // of no byte: those that nobody has written have epoch 0
  for (unsigned a = place; a < place + static_cast<unsigned>(bytes); ++a) {
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "reads", false);
      break;
    }
    const Stamp& write = last_write[a];
    if (write.epoch != 0 && write.epoch == checked.epoch && write.who == checked.who && write.site == checked.site) continue;
    checked = write;
    if (write.epoch < clocks.first) {
      FINDING(uninitialized_shared_read, self->site, "%s: %s reads %s, which nobody has written yet",
              describe_here(me).c_str(), instruction, describe_place(a).c_str());
      break;
    }
    if (!clocks.ordered(write.who, write.epoch, me)) {
      report_race(a, me, "reads", write, "wrote");
      break;
    }
    if (!by_engine(write.who) && !clocks.proxied(write.who, write.epoch, me)) {
      FINDING(missing_proxy_fence, self->site,
              "%s: %s reads %s, which %s wrote at %s, and no fence.proxy.async stands in between",
              describe_here(me).c_str(), instruction, describe_place(a).c_str(), describe_here(write.who).c_str(),
              emulator::place(write.site).c_str());
      break;
    }
  }
  std::fill_n(reads_of(actor) + place, bytes, Stamp{epoch, who_of(actor, whole_warp), self->site});
  for (int i = 0; i < bytes; ++i) readers[place + static_cast<unsigned>(i)] |= 1u << actor % 32;
  return from;
}

void place_mbarrier(unsigned address, bool there) {
  has_engines = true;
  const unsigned place = find(address, 8);
  if (place != nowhere) std::fill_n(pending + place, 8, there ? Pending{Under::mbarrier, self->who, self->site} : Pending{});
}

bool check_mbarrier_visible(unsigned address, const char* instruction, bool to_engine) {
  const unsigned place = find(address, 8, false);
  if (!launch.check || place == nowhere) return true;
  const Stamp& write = last_write[place];
  if (!clocks.ordered(write.who, write.epoch, self->who)) {
    FINDING(mbarrier_misuse, self->site, "%s: %s uses the mbarrier at %s, which %s initializes at %s, and no barrier is in between",
            describe_self().c_str(), instruction, describe_place(place).c_str(), describe_here(write.who).c_str(),
            emulator::place(write.site).c_str());
    return false;
  }
  return !to_engine || clocks.proxied(write.who, write.epoch, self->who);
}

void touch_block(unsigned rank, Who who, Epoch epoch) {
  const std::uint64_t key = std::uint64_t{rank} << 32 | std::uint64_t{who} << 16 | self->site;
  RemoteUse& use = remote_uses.try_emplace(key, RemoteUse{rank, who, epoch, self->site}).first->second;
  use.epoch = std::max(use.epoch, epoch);
}

void check_exits() {
  if (!launch.check) return;
  for (const auto& [key, use] : remote_uses) {
    bool known = false;
    for (unsigned w = use.rank * block_warps(); w < (use.rank + 1) * block_warps() && !known; ++w) {
      known = clocks.any_knows(use.who, use.epoch, w);
    }
    if (known) continue;
    FINDING(block_exited, use.site, "%s uses shared memory of block %u of its cluster, which may have exited: nothing lets it know",
            describe_here(use.who).c_str(), use.rank);
  }
}

}  // namespace autosched::emulator
