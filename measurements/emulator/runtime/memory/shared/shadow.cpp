#include "machine/part.hpp"
#include "memory/poison.hpp"
#include "memory/nearly_equal.hpp"
#include "memory/shared/memory.hpp"
#include "memory/shared/shadow.hpp"
#include "memory/tensor_memory.hpp"
#include "memory/uninitialized.hpp"
#include "memory/watched_reads.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace autosched::emulator {
namespace shared_shadow {

namespace {

using Racing = SharedUses::Racing;

bool strong(Machine& machine, SiteIndex site) {
  return site < machine.shared_uses.strong_sites.size() && machine.shared_uses.strong_sites[site];
}
bool is_volatile(Machine& machine, SiteIndex site) {
  return site < machine.shared_uses.volatile_sites.size() && machine.shared_uses.volatile_sites[site];
}
bool reads_data(Machine& machine, SiteIndex load) { return is_volatile(machine, load) && !decides(machine, load); }

// True if two accesses are strong and therefore do not race, whatever their order. False for volatile accesses if the
// value read is data rather than a flag, because volatile orders nothing. ``load``: site of the access that reads; 0:
// neither access reads.
bool both_strong(Machine& machine, const Stamp& other, SiteIndex load) {
  return strong(machine, other.site) && strong(machine, machine.self->site) &&
         !(load != 0 && is_volatile(machine, other.site) && is_volatile(machine, machine.self->site) && reads_data(machine, load));
}

bool is_unordered(Machine& machine, const Stamp& write, Agent me) {
  return write.epoch >= machine.clocks.first && !machine.clocks.ordered(write.agent, write.epoch, me) &&
         !both_strong(machine, write, 0);
}

// Returns the unresolved race between several writes to a byte. Returns nullptr if there is none, or if a write by `me`
// would be ordered after all of these writes.
Racing* open_race(Machine& machine, unsigned a, Agent me) {
  if (machine.shared_uses.racing.empty()) [[likely]] return nullptr;
  const auto race = machine.shared_uses.racing.find(a);
  if (race == machine.shared_uses.racing.end()) return nullptr;
  const auto& writers = race->second.writers;
  return std::any_of(writers.begin(), writers.end(), [&](const Stamp& w) { return is_unordered(machine, w, me); })
             ? &race->second
             : nullptr;
}

// True if all bytes of an access have the same state, which is usual. Otherwise, each byte must be checked.
template <class T>
bool uniform(const T* each, int bytes) {
  return std::memcmp(each, each + 1, static_cast<std::size_t>(bytes - 1) * sizeof(T)) == 0;
}
bool nothing_pending(Machine& machine, unsigned a, int bytes) {
  return std::all_of(machine.shared_uses.pending + a, machine.shared_uses.pending + a + bytes,
                     [](const Pending& p) { return p.kind == InFlight::nothing; });
}

// Returns a recorded read of byte `a` that is not ordered before the action of `me`, or nullptr if there is none.
// `same_value`: ignores reads recorded at the current instruction, because they represent writes of the same value by
// other threads.
const Stamp* unordered_read(Machine& machine, unsigned a, Agent me, bool same_value) {
  for (std::uint32_t left = machine.shared_uses.readers[a]; left != 0; left &= left - 1) {
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < machine.clocks.actors; actor += 32) {
      if (machine.shared_uses.last_read[actor] == nullptr) continue;
      const Stamp& read = machine.shared_uses.last_read[actor][a];
      if (read.epoch < machine.clocks.first || machine.clocks.ordered(read.agent, read.epoch, me) ||
          both_strong(machine, read, read.site))
        continue;
      if (!same_value || read.site != machine.self->site) return &read;
    }
  }
  return nullptr;
}

// True if an access needs no proxy fence, or if a proxy fence has made the access visible to the async proxy, which
// acts on behalf of `me`.
bool is_fenced(Machine& machine, const Stamp& use, Agent me) {
  return use.epoch < machine.clocks.first || by_engine(machine, use.agent) || machine.clocks.proxied(use.agent, use.epoch, me);
}

// True if an access to a byte happened before the action of `me`. With `Async`, is_fenced must also hold.
template <bool Async>
bool is_settled(Machine& machine, const Stamp& use, Agent me) {
  // A proxy fence alone does not imply that the access happened before the action of `me`: a lane publishes the fences
  // of all lanes of its warp, even of lanes whose actions are not ordered before its own.
  return machine.clocks.ordered(use.agent, use.epoch, me) &&
         (!Async || by_engine(machine, use.agent) || machine.clocks.proxied(use.agent, use.epoch, me));
}

// Fast path of check_write and (`Async`) check_async_write. Returns false if each byte must be checked.
template <bool Async = false>
bool is_clear(Machine& machine, unsigned address, int bytes, Agent me, bool same_value) {
  if (!uniform(machine.shared_uses.last_write + address, bytes) || !uniform(machine.shared_uses.readers + address, bytes) ||
      !nothing_pending(machine, address, bytes)) {
    return false;
  }
  const Stamp& write = machine.shared_uses.last_write[address];
  const bool together = same_value && write.site == machine.self->site && warp_of(write.agent) == warp_of(me);
  if (!together && write.epoch >= machine.clocks.first && !is_settled<Async>(machine, write, me) &&
      (Async || !both_strong(machine, write, 0)))
    return false;
  for (std::uint32_t left = machine.shared_uses.readers[address]; left != 0; left &= left - 1) {
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < machine.clocks.actors; actor += 32) {
      if (machine.shared_uses.last_read[actor] == nullptr) continue;
      const Stamp* const read = machine.shared_uses.last_read[actor] + address;
      if (!uniform(read, bytes)) return false;
      if (read->epoch >= machine.clocks.first && !is_settled<Async>(machine, *read, me) &&
          (Async || !both_strong(machine, *read, read->site)))
        return false;
    }
  }
  return true;
}

}  // namespace

Stamp* reads_of(Machine& machine, unsigned actor) {
  if (machine.shared_uses.last_read[actor] == nullptr)
    machine.shared_uses.last_read[actor] =
        zeroed_array<Stamp>(machine, machine.shared_uses.window_bytes * cluster_blocks(machine));
  return machine.shared_uses.last_read[actor];
}

void reserve_shadow(Machine& machine) {
  const std::size_t all = machine.shared_uses.window_bytes * cluster_blocks(machine);
  machine.shared_uses.last_write = zeroed_array<Stamp>(machine, all);
  machine.shared_uses.pending = zeroed_array<Pending>(machine, all);
  machine.shared_uses.readers = zeroed_array<std::uint32_t>(machine, all);
  machine.shared_uses.together = zeroed_array<std::uint32_t>(machine, all);
  machine.shared_uses.last_read = zeroed_array<Stamp*>(machine, max_actors);
}

namespace {
std::string describe_race(Machine& machine, unsigned address, Agent me, const char* doing, const Stamp& other, const char* did) {
  const bool both_volatile = is_volatile(machine, other.site) && is_volatile(machine, machine.self->site);
  return describe_agent(machine, me) + " " + doing + " " + describe_position(machine, address) + ", which " +
         describe_agent(machine, other.agent) + " " + did + " at " + describe_site(machine.report, other.site) +
         ": no barrier is in between" + (both_volatile ? " (volatile orders nothing)" : "");
}
}  // namespace

void report_race(Machine& machine, unsigned address, Agent me, const char* doing, const Stamp& other, const char* did,
                 Grade grade, const char* why) {
  if (by_engine(machine, other.agent)) {
    const bool read = did[0] == 'r';
    const Kind kind = read              ? in_flight_kind(machine, warp_of(other.agent))
                      : doing[0] == 'w' ? Kind::shared_race
                                        : Kind::async_read_before_wait;
    if (count_finding(machine.report, kind, machine.self->site)) {
      write_graded(machine.report, kind, Grade::fault, machine.self->site, other.site,
                   "%s %s %s, which %s %s (%s) without a wait for its completion", describe_agent(machine, me).c_str(), doing,
                   describe_position(machine, address).c_str(), describe_agent(machine, other.agent).c_str(), did,
                   describe_site(machine.report, other.site).c_str());
    }
    return;
  }
  FINDING_OF_TWO(machine.report, shared_race, grade, machine.self->site, other.site, "%s%s",
                 describe_race(machine, address, me, doing, other, did).c_str(), why);
  if (grade == Grade::note) return;
  // If the race involves a read whose value turns out to have no effect, the fault is later downgraded to a note.
  if (doing[0] == 'r') {
    watch_read(machine, Kind::shared_race, machine.self->site, me, true);
  } else if (did[0] == 'r') {
    watch_earlier_read(machine, other.site, other.agent, me, address);
  } else {
    confirm_race(machine, Kind::shared_race, machine.self->site);
  }
}

void report_pending(Machine& machine, unsigned address, Agent me, const char* doing, bool writing) {
  const Pending& p = machine.shared_uses.pending[address];
  if (p.kind == InFlight::mbarrier) {
    FINDING(machine.report, mbarrier_misuse, machine.self->site,
            "%s %s %s, which is part of the mbarrier that was initialized at %s: only mbarrier instructions may "
            "access it", describe_agent(machine, me).c_str(),
            doing, describe_position(machine, address).c_str(), describe_site(machine.report, p.site).c_str());
  } else if (p.kind == InFlight::bulk_copy) {
    if (writing) {
      FINDING(machine.report, shared_race, machine.self->site, "%s %s %s while a bulk copy of %s at %s is in flight to it",
              describe_agent(machine, me).c_str(), doing, describe_position(machine, address).c_str(),
              describe_agent(machine, p.agent).c_str(), describe_site(machine.report, p.site).c_str());
    } else {
      FINDING(machine.report, async_read_before_wait, machine.self->site,
              "%s %s %s, to which a bulk copy of %s at %s is still in flight: its mbarrier has not completed the phase",
              describe_agent(machine, me).c_str(), doing, describe_position(machine, address).c_str(),
              describe_agent(machine, p.agent).c_str(), describe_site(machine.report, p.site).c_str());
    }
  } else if (writing) {
    FINDING(machine.report, shared_race, machine.self->site, "%s %s %s while a cp.async of %s at %s is in flight to it",
            describe_agent(machine, me).c_str(), doing, describe_position(machine, address).c_str(),
            describe_agent(machine, p.agent).c_str(), describe_site(machine.report, p.site).c_str());
  } else {
    FINDING(machine.report, async_read_before_wait, machine.self->site,
            "%s %s %s, to which a cp.async of %s at %s is still in flight: wait for its group first",
            describe_agent(machine, me).c_str(), doing, describe_position(machine, address).c_str(),
            describe_agent(machine, p.agent).c_str(), describe_site(machine.report, p.site).c_str());
  }
}

void check_known(Machine& machine, unsigned address, int bytes) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const auto unknown = machine.shared_uses.unknown.find(a);
    if (unknown == machine.shared_uses.unknown.end()) continue;
    leave_undecided(machine);
    const SiteIndex origin = unknown->second.origin;
    if (report_uninitialized(machine, origin)) return;
    FINDING(machine.report, undefined_register, origin,
            "%s uses %s, to which an undefined register was stored, at %s",
            describe_self(machine).c_str(), describe_position(machine, a).c_str(),
            describe_site(machine.report, machine.self->site).c_str());
    return;
  }
}

namespace {
// Returns false for a lazy read of unknown bytes, otherwise true. A read of unknown bytes that is not lazy causes a
// finding. Not inlined, because it is rarely needed.
[[gnu::noinline]] bool reads_known(Machine& machine, unsigned address, int bytes, bool lazily) {
  if (!lazily) {
    check_known(machine, address, bytes);
    return true;
  }
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (machine.shared_uses.unknown.contains(a)) return false;
  }
  return true;
}
}  // namespace

bool shadow_read(Machine& machine, unsigned address, int bytes, Agent me, bool lazily) {
  const unsigned warp = warp_of(me);
  bool whole = machine.shared_uses.unknown.empty() || reads_known(machine, address, bytes, lazily);
  const Stamp mine{machine.clocks.now[warp], me, machine.self->site};
  Stamp* const reads = reads_of(machine, warp);
  if (uniform(machine.shared_uses.last_write + address, bytes) && uniform(reads + address, bytes) &&
      nothing_pending(machine, address, bytes)) {
    const Stamp& write = machine.shared_uses.last_write[address];
    if (write.epoch >= machine.clocks.first &&
        (machine.clocks.ordered(write.agent, write.epoch, me) || both_strong(machine, write, machine.self->site))) {
      const bool others_too = reads[address].epoch == mine.epoch && reads[address].agent != me;
      const Agent reader = others_too ? both_of(reads[address].agent, me) : me;
      std::fill_n(reads + address, bytes, Stamp{mine.epoch, reader, mine.site});
      for (int k = 0; k < bytes; ++k) machine.shared_uses.readers[address + static_cast<unsigned>(k)] |= 1u << warp % 32;
      return whole;
    }
  }
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const Stamp& write = machine.shared_uses.last_write[a];
    if (machine.shared_uses.pending[a].kind != InFlight::nothing) {
      report_pending(machine, a, me, "reads", false);
      return true;
    }
    if (write.epoch < machine.clocks.first) {
      if (lazily) {
        note_uninitialized(machine, Kind::uninitialized_shared_read, machine.self->site, [&] {
          return describe_agent(machine, me) + " reads " + describe_position(machine, a) + ", which has not been written"; });
        whole = false;
        continue;
      }
      FINDING(machine.report, uninitialized_shared_read, machine.self->site, "%s reads %s, which has not been written",
              describe_agent(machine, me).c_str(), describe_position(machine, a).c_str());
      return true;
    }
    if (!machine.clocks.ordered(write.agent, write.epoch, me) && !both_strong(machine, write, machine.self->site) &&
        (machine.shared_uses.together[a] >> warp % 32 & 1u) == 0) {
      report_race(machine, a, me, "reads", write, "wrote");
      return true;
    }
    Stamp& read = reads[a];
    const bool others_too = read.epoch == mine.epoch && read.agent != me;
    read = {mine.epoch, others_too ? both_of(read.agent, me) : me, mine.site};
    machine.shared_uses.readers[a] |= 1u << warp % 32;
  }
  return whole;
}

bool check_write(Machine& machine, unsigned address, int bytes, Agent me, const void* from, bool* nearly, bool* torn) {
  const unsigned char* const stored = from != nullptr ? bytes_at(machine, address) : nullptr;
  const bool same_value = from != nullptr && std::memcmp(stored, from, static_cast<std::size_t>(bytes)) == 0;
  if (is_clear(machine, address, bytes, me, same_value)) return true;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (machine.shared_uses.pending[a].kind != InFlight::nothing) {
      report_pending(machine, a, me, "writes", true);
      return false;
    }
    const Stamp& write = machine.shared_uses.last_write[a];
    const bool same_write = same_value && write.site == machine.self->site;
    if (!same_write && is_unordered(machine, write, me)) {
      if (same_value) {
        report_race(machine, a, me, "writes", write, "wrote", Grade::note, "; both write the same value");
        return true;
      }
      if (nearly != nullptr && write.site == machine.self->site && nearly_equal(machine, stored, from, bytes, machine.self->site)) {
        report_race(machine, a, me,
                "writes", write, "wrote", Grade::note, "; both write sums that only differ in the last bits");
        *nearly = true;
        return true;
      }
      if (torn != nullptr && !by_engine(machine, write.agent) && !by_engine(machine, me)) {
        *torn = true;
        note_uninitialized(
            machine, Kind::shared_race, machine.self->site,
            [&] { return describe_race(machine, a, me, "writes", write, "wrote"); }, write.site);
        return false;
      }
      report_race(machine, a, me, "writes", write, "wrote");
      return false;
    }
    if (const Stamp* read = unordered_read(machine, a, me, same_value)) {
      if (nearly != nullptr && read->site == machine.self->site && nearly_equal(machine, stored, from, bytes, machine.self->site)) {
        *nearly = true;  // other threads have written the same value with this instruction
        return true;
      }
      report_race(machine, a, me, "writes", *read, "read");
      return false;
    }
  }
  return true;
}

namespace {
// Returns an access that no proxy fence has made visible to the async proxy: the last write to the byte, or a read
// after this write. Returns nullptr if there is none. Sets `wrote` to whether the returned access is a write.
const Stamp* unfenced_use(Machine& machine, unsigned a, Agent me, bool& wrote) {
  wrote = true;
  if (!is_fenced(machine, machine.shared_uses.last_write[a], me)) return &machine.shared_uses.last_write[a];
  for (std::uint32_t left = machine.shared_uses.readers[a]; left != 0; left &= left - 1) {
    wrote = (machine.shared_uses.together[a] & left & -left) != 0;
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < machine.clocks.warps; actor += 32) {
      if (machine.shared_uses.last_read[actor] != nullptr && !is_fenced(machine, machine.shared_uses.last_read[actor][a], me))
        return &machine.shared_uses.last_read[actor][a];
    }
  }
  return nullptr;
}
}  // namespace

bool check_async_write(Machine& machine, unsigned address, int bytes, Agent me, const char* instruction) {
  if (is_clear<true>(machine, address, bytes, me, false)) return true;
  if (!check_write(machine, address, bytes, me)) return false;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    bool wrote;
    const Stamp* const use = unfenced_use(machine, a, me, wrote);
    if (use == nullptr) continue;
    FINDING_OF_TWO(machine.report, missing_proxy_fence, machine.grade_of_missing_fences, machine.self->site, use->site,
                   "%s: %s writes %s, which %s %s at %s, without fence.proxy.async in between: %s. Add the fence "
                   "after the %s and before the synchronization",
                   describe_agent(machine, me).c_str(), instruction, describe_position(machine, a).c_str(),
                   describe_agent(machine, use->agent).c_str(), wrote ? "wrote" : "read", describe_site(machine.report, use->site).c_str(),
                   wrote ? "the earlier write may overwrite the new bytes" : "the read may see the new bytes",
                   wrote ? "write" : "read");
    return machine.grade_of_missing_fences == Grade::note;
  }
  return true;
}

namespace {
void stamp_written(Machine& machine, unsigned address, int bytes, Agent me, SiteIndex site) {
  if (!machine.shared_uses.under_atomics.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) machine.shared_uses.under_atomics.erase(a);
  }
  const Stamp mine{machine.clocks.now[warp_of(me)], me, site};
  std::fill_n(machine.shared_uses.last_write + address, bytes, mine);
  std::fill_n(machine.shared_uses.readers + address, bytes, 0u);
  std::fill_n(machine.shared_uses.together + address, bytes, 0u);
}

// Records writes of different values by several threads. Bits in which the values differ become unknown.
void write_torn(Machine& machine, unsigned address, int bytes, Agent me, const unsigned char* from) {
  const unsigned char* const stored = bytes_at(machine, address);
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    const unsigned a = address + k;
    Racing* race = open_race(machine, a, me);
    if (race == nullptr) {
      machine.shared_uses.racing.erase(a);
      machine.shared_uses.unknown.erase(a);
      if (!is_unordered(machine, machine.shared_uses.last_write[a], me)) continue;
      race = &machine.shared_uses.racing[a];
      *race = {{machine.shared_uses.last_write[a]}, machine.self->site};
    }
    race->writers.push_back({machine.clocks.now[warp_of(me)], me, machine.self->site});
    const unsigned differ = from == nullptr ? 0xffu : static_cast<unsigned>(stored[k] ^ from[k]);
    const auto before = machine.shared_uses.unknown.find(a);
    const unsigned known = (before == machine.shared_uses.unknown.end() ? 0xffu : before->second.known) & ~differ;
    if (known != 0xff) machine.shared_uses.unknown[a] = {static_cast<unsigned char>(known), race->origin};
  }
  stamp_written(machine, address, bytes, me, machine.self->site);
}
}  // namespace

void mark_written(Machine& machine, unsigned address, int bytes, Agent me, SiteIndex site) {
  if (!machine.shared_uses.racing.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
      if (const Racing* race = open_race(machine, a, me)) report_uninitialized(machine, race->origin);
      machine.shared_uses.racing.erase(a);
    }
  }
  if (!machine.shared_uses.unknown.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) machine.shared_uses.unknown.erase(a);
  }
  stamp_written(machine, address, bytes, me, site);
}

void shadow_write(Machine& machine, unsigned address, int bytes, Agent me, const void* from) {
  bool nearly = false, torn = false;
  check_write(machine, address, bytes, me, from, &nearly, from != nullptr ? &torn : nullptr);
  for (unsigned a = address; !torn && !machine.shared_uses.racing.empty() && a < address + static_cast<unsigned>(bytes); ++a) {
    torn = open_race(machine, a, me) != nullptr;
  }
  if (torn) [[unlikely]] return write_torn(machine, address, bytes, me, static_cast<const unsigned char*>(from));
  const bool joins_others =
      nearly || (from != nullptr && std::memcmp(bytes_at(machine, address), from, static_cast<std::size_t>(bytes)) == 0);
  if (!joins_others) return mark_written(machine, address, bytes, me, machine.self->site);
  const unsigned warp = warp_of(me);
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const Stamp& write = machine.shared_uses.last_write[a];
    const bool joins = write.epoch >= machine.clocks.first && write.site == machine.self->site &&
                       warp_of(write.agent) != warp && !machine.clocks.ordered(write.agent, write.epoch, me);
    if (!joins) {
      mark_written(machine, a, 1, me, machine.self->site);
      continue;
    }
    // The stamp of the first writer is kept, and this write is recorded like a read. So a later thread that changes the
    // byte must be ordered after both writers.
    machine.shared_uses.together[a] |= 1u << warp % 32;
    machine.shared_uses.readers[a] |= 1u << warp % 32;
    reads_of(machine, warp)[a] = {machine.clocks.now[warp], me, machine.self->site};
  }
}

void check_taken(Machine& machine, unsigned address, int bytes, Agent me) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (machine.shared_uses.last_write[a].epoch >= machine.clocks.first) continue;
    leave_undecided(machine);
    FINDING(machine.report, uninitialized_shared_read, machine.self->site, "%s updates %s, which has not been written",
            describe_agent(machine, me).c_str(), describe_position(machine, a).c_str());
    break;
  }
  check_known(machine, address, bytes);
}

bool check_under_atomics(Machine& machine, unsigned address, int bytes, Agent me) {
  if (machine.shared_uses.under_atomics.empty()) return true;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const auto under = machine.shared_uses.under_atomics.find(a);
    if (under == machine.shared_uses.under_atomics.end() || machine.clocks.ordered(under->second.agent, under->second.epoch, me))
      continue;
    if (machine.clocks.ordered(machine.shared_uses.last_write[a].agent, machine.shared_uses.last_write[a].epoch, me))
      continue;  // the plain write happened before a later atomic, and `me` is ordered after this atomic
    report_race(machine, a, me, "updates", under->second, "wrote");
    return false;
  }
  return true;
}

namespace {
// The last plain write of a byte, possibly followed by atomics; its epoch is 0 if there is none.
Stamp plain_write(Machine& machine, unsigned a) {
  if (const auto under = machine.shared_uses.under_atomics.find(a); under != machine.shared_uses.under_atomics.end())
    return under->second;
  const Stamp& write = machine.shared_uses.last_write[a];
  return write.epoch >= machine.clocks.first && !strong(machine, write.site) ? write : Stamp{};
}
}  // namespace

void shadow_update(Machine& machine, unsigned address, int bytes, Agent me) {
  check_under_atomics(machine, address, 1, me);
  const Stamp plain = plain_write(machine, address);
  shadow_write(machine, address, bytes, me);
  if (plain.epoch != 0) machine.shared_uses.under_atomics[address] = plain;
}

void mark_updated(Machine& machine, unsigned address, int bytes, Stamp update) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (const Stamp plain = plain_write(machine, a); plain.epoch != 0) machine.shared_uses.under_atomics[a] = plain;
    machine.shared_uses.last_write[a] = update;
    machine.shared_uses.readers[a] = machine.shared_uses.together[a] = 0;
  }
}

void forget_earlier_writes(Machine& machine) {
  machine.shared_uses.under_atomics.clear();
  machine.shared_uses.racing.clear();
}

}  // namespace shared_shadow

void mark_strong(Machine& machine, SiteIndex site) {
  if (site >= machine.shared_uses.strong_sites.size()) machine.shared_uses.strong_sites.resize(site + std::size_t{64});
  machine.shared_uses.strong_sites[site] = true;
}

void mark_volatile(Machine& machine, SiteIndex site) {
  if (site >= machine.shared_uses.volatile_sites.size()) machine.shared_uses.volatile_sites.resize(site + std::size_t{64});
  machine.shared_uses.volatile_sites[site] = true;
}

}  // namespace autosched::emulator

AUTOSCHED_PART(shared_shadow::SharedUses);
