#include "memory/garbage.hpp"
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

Stamp* last_write = nullptr;
Pending* pending = nullptr;
std::uint32_t* readers = nullptr;
std::uint32_t* together = nullptr;
bool has_engines = false;
PerBlock<std::unordered_map<unsigned, Unknown>> unknown;

namespace {

Stamp** last_read = nullptr;  // by actor
Parked<Stamp**> parked_reads{last_read};
Parked<Stamp*> parked_writes{last_write};
Parked<Pending*> parked_pending{pending};
Parked<std::uint32_t*> parked_masks[] = {Parked(readers), Parked(together)};

// Sites whose accesses do not race with each other: atomics, and volatile or relaxed loads and stores.
std::vector<bool> strong_sites;
bool strong(SiteIndex site) { return site < strong_sites.size() && strong_sites[site]; }
// A volatile access of data, which is not a question whether something has happened.
std::vector<bool> volatile_sites;
bool is_volatile(SiteIndex site) { return site < volatile_sites.size() && volatile_sites[site]; }
bool reads_data(SiteIndex load) { return is_volatile(load) && !decides(load); }

// Whether two accesses may come in any order. A volatile read of data may not: volatile orders nothing. ``load``: that of
// the two which reads; 0: neither does.
bool both_strong(const Stamp& other, SiteIndex load) {
  return strong(other.site) && strong(self->site) &&
         !(load != 0 && is_volatile(other.site) && is_volatile(self->site) && reads_data(load));
}

// The last write of a place that was not an atomic, where atomics have come on top of it.
PerBlock<std::unordered_map<unsigned, Stamp>> under_atomics;

// Bytes of which several threads have written values of their own, in any order: who, and where the second one was found.
// One of them may write again: that is no end of it. Only a write behind all of them is.
struct Racing {
  std::vector<Stamp> writers;
  SiteIndex origin;
};
PerBlock<std::unordered_map<unsigned, Racing>> racing;

bool is_unordered(const Stamp& write, Who me) {
  return write.epoch >= clocks.first && !clocks.ordered(write.who, write.epoch, me) && !both_strong(write, 0);
}

// The race of a byte that a write of `me` leaves open, or nullptr.
Racing* open_race(unsigned a, Who me) {
  if (racing.empty()) [[likely]] return nullptr;
  const auto found = racing.find(a);
  if (found == racing.end()) return nullptr;
  const auto& writers = found->second.writers;
  return std::any_of(writers.begin(), writers.end(), [&](const Stamp& w) { return is_unordered(w, me); }) ? &found->second : nullptr;
}

// Whether the bytes of an access have one thing to say, as nearly always; at worst it is asked byte by byte.
template <class T>
bool uniform(const T* each, int bytes) {
  return std::memcmp(each, each + 1, static_cast<std::size_t>(bytes - 1) * sizeof(T)) == 0;
}
bool nothing_pending(unsigned a, int bytes) {
  return std::all_of(pending + a, pending + a + bytes, [](const Pending& p) { return p.what == Under::nothing; });
}

// The newest read of a byte that did not happen before what `me` does, or nullptr. `same_value`: of others than those
// who write the same with the same instruction, whose stamps stand among the reads.
const Stamp* unordered_read(unsigned a, Who me, bool same_value) {
  for (std::uint32_t left = readers[a]; left != 0; left &= left - 1) {
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < clocks.actors; actor += 32) {
      if (last_read[actor] == nullptr) continue;
      const Stamp& read = last_read[actor][a];
      if (read.epoch < clocks.first || clocks.ordered(read.who, read.epoch, me) || both_strong(read, read.site)) continue;
      if (!same_value || read.site != self->site) return &read;
    }
  }
  return nullptr;
}

// Whether what a thread has done to a byte is visible to the async proxy, on behalf of `me`.
bool is_fenced(const Stamp& use, Who me) {
  return use.epoch < clocks.first || by_engine(use.who) || clocks.proxied(use.who, use.epoch, me);
}

// Whether a use of a byte happened before what `me` does and, with `Async`, is_fenced.
template <bool Async>
bool is_settled(const Stamp& use, Who me) {
  // A lane publishes the fences of all lanes of its warp, though it need not know what these have done.
  return clocks.ordered(use.who, use.epoch, me) && (!Async || by_engine(use.who) || clocks.proxied(use.who, use.epoch, me));
}

// check_write in fewer steps; false where it takes a look at each byte. `Async`: check_async_write.
template <bool Async = false>
bool is_clear(unsigned address, int bytes, Who me, bool same_value) {
  if (!uniform(last_write + address, bytes) || !uniform(readers + address, bytes) || !nothing_pending(address, bytes)) {
    return false;
  }
  const Stamp& write = last_write[address];
  const bool together = same_value && write.site == self->site && warp_of(write.who) == warp_of(me);
  if (!together && write.epoch >= clocks.first && !is_settled<Async>(write, me) && (Async || !both_strong(write, 0))) return false;
  for (std::uint32_t left = readers[address]; left != 0; left &= left - 1) {
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < clocks.actors; actor += 32) {
      if (last_read[actor] == nullptr) continue;
      const Stamp* const read = last_read[actor] + address;
      if (!uniform(read, bytes)) return false;
      if (read->epoch >= clocks.first && !is_settled<Async>(*read, me) && (Async || !both_strong(*read, read->site))) return false;
    }
  }
  return true;
}

}  // namespace

Stamp* reads_of(unsigned actor) {
  if (last_read[actor] == nullptr) last_read[actor] = zeroed_array<Stamp>(window_bytes * cluster_blocks());
  return last_read[actor];
}

void reserve_shadow() {
  const std::size_t all = window_bytes * cluster_blocks();
  last_write = zeroed_array<Stamp>(all);
  pending = zeroed_array<Pending>(all);
  readers = zeroed_array<std::uint32_t>(all);
  together = zeroed_array<std::uint32_t>(all);
  last_read = zeroed_array<Stamp*>(max_actors);
}

namespace {
std::string describe_race(unsigned address, Who me, const char* doing, const Stamp& other, const char* did) {
  const bool both_volatile = is_volatile(other.site) && is_volatile(self->site);
  return describe_here(me) + " " + doing + " " + describe_place(address) + ", which " + describe_here(other.who) + " " + did + " at " +
         place(other.site) + ", and no barrier is in between" + (both_volatile ? " (volatile orders nothing)" : "");
}
}  // namespace

void report_race(unsigned address, Who me, const char* doing, const Stamp& other, const char* did, Grade grade,
                 const char* why) {
  if (by_engine(other.who)) {
    const bool read = did[0] == 'r';
    const Kind kind = read              ? in_flight_kind(warp_of(other.who))
                      : doing[0] == 'w' ? Kind::shared_race
                                        : Kind::async_read_before_wait;
    if (count_finding(kind, self->site)) {
      write_graded(kind, Grade::fault, self->site, other.site, "%s %s %s, which %s %s (%s), and nothing says that it is done",
                   describe_here(me).c_str(), doing, describe_place(address).c_str(), describe_here(other.who).c_str(),
                   did, place(other.site).c_str());
    }
    return;
  }
  FINDING_OF_TWO(shared_race, grade, self->site, other.site, "%s%s", describe_race(address, me, doing, other, did).c_str(), why);
  if (grade == Grade::note) return;
  // It is a note where nothing comes of the value that a thread has read.
  if (doing[0] == 'r') {
    watch_read(Kind::shared_race, self->site, me, true);
  } else if (did[0] == 'r') {
    watch_earlier_read(other.site, other.who, me, address);
  } else {
    confirm_race(Kind::shared_race, self->site);
  }
}

void report_pending(unsigned address, Who me, const char* doing, bool writing) {
  const Pending& p = pending[address];
  if (p.what == Under::mbarrier) {
    FINDING(mbarrier_misuse, self->site, "%s %s %s, where the mbarrier of %s stands, without an mbarrier instruction",
            describe_here(me).c_str(), doing, describe_place(address).c_str(), place(p.site).c_str());
  } else if (p.what == Under::bulk_copy) {
    if (writing) {
      FINDING(shared_race, self->site, "%s %s %s while a bulk copy of %s at %s is under way to it",
              describe_here(me).c_str(), doing, describe_place(address).c_str(), describe_here(p.who).c_str(),
              place(p.site).c_str());
    } else {
      FINDING(async_read_before_wait, self->site,
              "%s %s %s, which the bulk copy of %s at %s has not delivered: its mbarrier has not completed the phase",
              describe_here(me).c_str(), doing, describe_place(address).c_str(), describe_here(p.who).c_str(),
              place(p.site).c_str());
    }
  } else if (writing) {
    FINDING(shared_race, self->site, "%s %s %s while a cp.async of %s at %s is under way to it",
            describe_here(me).c_str(), doing, describe_place(address).c_str(), describe_here(p.who).c_str(),
            place(p.site).c_str());
  } else {
    FINDING(async_read_before_wait, self->site,
            "%s %s %s, which a cp.async of %s at %s has not written yet: its wait comes later or never",
            describe_here(me).c_str(), doing, describe_place(address).c_str(), describe_here(p.who).c_str(),
            place(p.site).c_str());
  }
}

void check_known(unsigned address, int bytes) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const auto found = unknown.find(a);
    if (found == unknown.end()) continue;
    leave_undecided();
    const SiteIndex origin = found->second.origin;
    if (report_uninitialized(origin)) return;
    FINDING(undefined_register, origin, "%s uses %s, where a register is stored that was never written on the path taken, at %s",
            describe_self().c_str(), describe_place(a).c_str(), place(self->site).c_str());
    return;
  }
}

namespace {
// Whether a read finds all known; what is not read lazily is a finding where not. Out of line: whoever reads should fit
// into few instructions.
[[gnu::noinline]] bool reads_known(unsigned address, int bytes, bool lazily) {
  if (!lazily) {
    check_known(address, bytes);
    return true;
  }
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (unknown.contains(a)) return false;
  }
  return true;
}
}  // namespace

bool shadow_read(unsigned address, int bytes, Who me, bool lazily) {
  const unsigned warp = warp_of(me);
  bool whole = unknown.empty() || reads_known(address, bytes, lazily);
  const Stamp mine{clocks.now[warp], me, self->site};
  Stamp* const reads = reads_of(warp);
  if (uniform(last_write + address, bytes) && uniform(reads + address, bytes) && nothing_pending(address, bytes)) {
    const Stamp& write = last_write[address];
    if (write.epoch >= clocks.first && (clocks.ordered(write.who, write.epoch, me) || both_strong(write, self->site))) {
      const bool others_too = reads[address].epoch == mine.epoch && reads[address].who != me;
      const Who who = others_too ? both_of(reads[address].who, me) : me;
      std::fill_n(reads + address, bytes, Stamp{mine.epoch, who, mine.site});
      for (int k = 0; k < bytes; ++k) readers[address + static_cast<unsigned>(k)] |= 1u << warp % 32;
      return whole;
    }
  }
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const Stamp& write = last_write[a];
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "reads", false);
      return true;
    }
    if (write.epoch < clocks.first) {
      if (lazily) {
        note_uninitialized(Kind::uninitialized_shared_read, self->site, [&] {
          return describe_here(me) + " reads " + describe_place(a) + ", which nobody has written yet";
        });
        whole = false;
        continue;
      }
      FINDING(uninitialized_shared_read, self->site, "%s reads %s, which nobody has written yet",
              describe_here(me).c_str(), describe_place(a).c_str());
      return true;
    }
    if (!clocks.ordered(write.who, write.epoch, me) && !both_strong(write, self->site) && (together[a] >> warp % 32 & 1u) == 0) {
      report_race(a, me, "reads", write, "wrote");
      return true;
    }
    Stamp& read = reads[a];
    const bool others_too = read.epoch == mine.epoch && read.who != me;
    read = {mine.epoch, others_too ? both_of(read.who, me) : me, mine.site};
    readers[a] |= 1u << warp % 32;
  }
  return whole;
}

bool check_write(unsigned address, int bytes, Who me, const void* from, bool* nearly, bool* torn) {
  const unsigned char* const there = from != nullptr ? bytes_at(address) : nullptr;
  const bool same_value = from != nullptr && std::memcmp(there, from, static_cast<std::size_t>(bytes)) == 0;
  if (is_clear(address, bytes, me, same_value)) return true;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "writes", true);
      return false;
    }
    const Stamp& write = last_write[a];
    const bool same_write = same_value && write.site == self->site;
    if (!same_write && is_unordered(write, me)) {
      if (same_value) {
        report_race(a, me, "writes", write, "wrote", Grade::note, "; both write the same value");
        return true;
      }
      if (nearly != nullptr && write.site == self->site && nearly_equal(there, from, bytes, self->site)) {
        report_race(a, me, "writes", write, "wrote", Grade::note, "; the values are not deterministic in the last bits");
        *nearly = true;
        return true;
      }
      if (torn != nullptr && !by_engine(write.who) && !by_engine(me)) {
        *torn = true;
        note_uninitialized(Kind::shared_race, self->site, [&] { return describe_race(a, me, "writes", write, "wrote"); }, write.site);
        return false;
      }
      report_race(a, me, "writes", write, "wrote");
      return false;
    }
    if (const Stamp* read = unordered_read(a, me, same_value)) {
      if (nearly != nullptr && read->site == self->site && nearly_equal(there, from, bytes, self->site)) {
        *nearly = true;  // others that have written it with this instruction
        return true;
      }
      report_race(a, me, "writes", *read, "read");
      return false;
    }
  }
  return true;
}

namespace {
// What threads have done to a byte, its last write or a read since, that is not visible to the async proxy, or nullptr.
const Stamp* unfenced_use(unsigned a, Who me, bool& wrote) {
  wrote = true;
  if (!is_fenced(last_write[a], me)) return &last_write[a];
  for (std::uint32_t left = readers[a]; left != 0; left &= left - 1) {
    wrote = (together[a] & left & -left) != 0;
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < clocks.warps; actor += 32) {
      if (last_read[actor] != nullptr && !is_fenced(last_read[actor][a], me)) return &last_read[actor][a];
    }
  }
  return nullptr;
}
}  // namespace

bool check_async_write(unsigned address, int bytes, Who me, const char* instruction) {
  if (is_clear<true>(address, bytes, me, false)) return true;
  if (!check_write(address, bytes, me)) return false;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    bool wrote;
    const Stamp* const use = unfenced_use(a, me, wrote);
    if (use == nullptr) continue;
    FINDING_OF_TWO(missing_proxy_fence, grade_of_missing_fences, self->site, use->site,
                   "%s: %s writes %s, which %s %s at %s, without fence.proxy.async in between: %s. "
                   "The fence belongs behind the %s, before what says that the bytes are free",
                   describe_here(me).c_str(), instruction, describe_place(a).c_str(), describe_here(use->who).c_str(),
                   wrote ? "wrote" : "read", place(use->site).c_str(),
                   wrote ? "the old bytes may come on top of the new ones" : "the read may see the new bytes",
                   wrote ? "write" : "read");
    return grade_of_missing_fences == Grade::note;
  }
  return true;
}

namespace {
void stamp_written(unsigned address, int bytes, Who me, SiteIndex site) {
  if (!under_atomics.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) under_atomics.erase(a);
  }
  const Stamp mine{clocks.now[warp_of(me)], me, site};
  std::fill_n(last_write + address, bytes, mine);
  std::fill_n(readers + address, bytes, 0u);
  std::fill_n(together + address, bytes, 0u);
}

// Several threads write values of their own: which bits stand there is not known but where they agree.
void write_torn(unsigned address, int bytes, Who me, const unsigned char* from) {
  const unsigned char* const there = bytes_at(address);
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    const unsigned a = address + k;
    Racing* race = open_race(a, me);
    if (race == nullptr) {
      racing.erase(a);
      unknown.erase(a);
      if (!is_unordered(last_write[a], me)) continue;
      race = &racing[a];
      *race = {{last_write[a]}, self->site};
    }
    race->writers.push_back({clocks.now[warp_of(me)], me, self->site});
    const unsigned differ = from == nullptr ? 0xffu : static_cast<unsigned>(there[k] ^ from[k]);
    const auto before = unknown.find(a);
    const unsigned known = (before == unknown.end() ? 0xffu : before->second.known) & ~differ;
    if (known != 0xff) unknown[a] = {static_cast<unsigned char>(known), race->origin};
  }
  stamp_written(address, bytes, me, self->site);
}
}  // namespace

void mark_written(unsigned address, int bytes, Who me, SiteIndex site) {
  if (!racing.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
      if (const Racing* race = open_race(a, me)) report_uninitialized(race->origin);
      racing.erase(a);
    }
  }
  if (!unknown.empty()) [[unlikely]] {
    for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) unknown.erase(a);
  }
  stamp_written(address, bytes, me, site);
}

void shadow_write(unsigned address, int bytes, Who me, const void* from) {
  bool nearly = false, torn = false;
  check_write(address, bytes, me, from, &nearly, from != nullptr ? &torn : nullptr);
  for (unsigned a = address; !torn && !racing.empty() && a < address + static_cast<unsigned>(bytes); ++a) {
    torn = open_race(a, me) != nullptr;
  }
  if (torn) [[unlikely]] return write_torn(address, bytes, me, static_cast<const unsigned char*>(from));
  const bool joins_others =
      nearly || (from != nullptr && std::memcmp(bytes_at(address), from, static_cast<std::size_t>(bytes)) == 0);
  if (!joins_others) return mark_written(address, bytes, me, self->site);
  const unsigned warp = warp_of(me);
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const Stamp& write = last_write[a];
    const bool joins = write.epoch >= clocks.first && write.site == self->site && warp_of(write.who) != warp &&
                       !clocks.ordered(write.who, write.epoch, me);
    if (!joins) {
      mark_written(a, 1, me, self->site);
      continue;
    }
    // The first writer's stamp stays. This one's is kept as a read's: who changes the byte must come after both.
    together[a] |= 1u << warp % 32;
    readers[a] |= 1u << warp % 32;
    reads_of(warp)[a] = {clocks.now[warp], me, self->site};
  }
}

void check_taken(unsigned address, int bytes, Who me) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (last_write[a].epoch >= clocks.first) continue;
    leave_undecided();
    FINDING(uninitialized_shared_read, self->site, "%s updates %s, which nobody has written yet", describe_here(me).c_str(),
            describe_place(a).c_str());
    break;
  }
  check_known(address, bytes);
}

bool check_under_atomics(unsigned address, int bytes, Who me) {
  if (under_atomics.empty()) return true;
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const auto under = under_atomics.find(a);
    if (under == under_atomics.end() || clocks.ordered(under->second.who, under->second.epoch, me)) continue;
    if (clocks.ordered(last_write[a].who, last_write[a].epoch, me)) continue;  // behind an atomic that came after it
    report_race(a, me, "updates", under->second, "wrote");
    return false;
  }
  return true;
}

namespace {
// The last write of a byte that was no atomic's; of epoch 0: none.
Stamp plain_write(unsigned a) {
  if (const auto under = under_atomics.find(a); under != under_atomics.end()) return under->second;
  const Stamp& write = last_write[a];
  return write.epoch >= clocks.first && !strong(write.site) ? write : Stamp{};
}
}  // namespace

void shadow_update(unsigned address, int bytes, Who me) {
  check_under_atomics(address, 1, me);
  const Stamp plain = plain_write(address);
  shadow_write(address, bytes, me);
  if (plain.epoch != 0) under_atomics[address] = plain;
}

void mark_updated(unsigned address, int bytes, Stamp update) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (const Stamp plain = plain_write(a); plain.epoch != 0) under_atomics[a] = plain;
    last_write[a] = update;
    readers[a] = together[a] = 0;
  }
}

void forget_earlier_writes() {
  under_atomics.clear();
  racing.clear();
}

}  // namespace shared_shadow

void mark_strong(SiteIndex site) {
  if (site >= shared_shadow::strong_sites.size()) shared_shadow::strong_sites.resize(site + std::size_t{64});
  shared_shadow::strong_sites[site] = true;
}

void mark_volatile(SiteIndex site) {
  if (site >= shared_shadow::volatile_sites.size()) shared_shadow::volatile_sites.resize(site + std::size_t{64});
  shared_shadow::volatile_sites[site] = true;
}

}  // namespace autosched::emulator
