// The block's shared memory and its shadow: who last wrote and who has read each byte, and when.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "counting.hpp"
#include "machine.hpp"

namespace autosched::emulator {
namespace {

// The window begins with a reserved kilobyte, as on sm_90; then the kernel's static variables, then dynamic memory.
constexpr unsigned window_begin = 1024;
constexpr unsigned dynamic_alignment = 1024;

struct Stamp {
  Epoch epoch;
  Who who;
  SiteIndex site;
};
// What is under way to a byte, or what stands there that is no data.
enum class Under : std::uint8_t { nothing, cp_async, bulk_copy, mbarrier };
// What a thread, or a bulk copy, has last done to another block's shared memory at a line.
struct RemoteUse {
  unsigned rank;
  Who who;
  Epoch epoch;
  SiteIndex site;
};
std::unordered_map<std::uint64_t, RemoteUse> remote_uses;  // by all of it but the epoch

struct Pending {
  Under what;
  Who who;
  SiteIndex site;
};

char* static_begin = nullptr;
unsigned static_bytes = 0;
unsigned dynamic_begin = 0;
unsigned char* dynamic_memory = nullptr;

// Indexed by address in the window, that of one block of the cluster behind that of another. A stamp of an earlier block
// counts as none.
Stamp* last_write = nullptr;
Pending* pending = nullptr;
// Since the last write, of actors modulo 32; may name some whose stamp is of an earlier block.
std::uint32_t* readers = nullptr;
std::size_t window_bytes = 0;
// Newest read of each actor that has read; lane 32: several lanes in that epoch.
Stamp* last_read[max_actors] = {};

// Sites whose accesses do not race with each other: atomics, and volatile or relaxed loads and stores.
std::vector<bool> strong_sites;
bool strong(SiteIndex site) { return site < strong_sites.size() && strong_sites[site]; }
bool both_strong(const Stamp& other) { return strong(other.site) && strong(self->site); }

template <class T>
T* zeroed_array(std::size_t count) {
  return static_cast<T*>(reserve_zeroed(count * sizeof(T)));
}

Stamp* reads_of(unsigned actor) {
  if (last_read[actor] == nullptr) last_read[actor] = zeroed_array<Stamp>(window_bytes * cluster_blocks());
  return last_read[actor];
}

// A place in the shadow, or in no block's shared memory.
constexpr unsigned nowhere = ~0u;

// Where bytes of the block of the running thread, or of the one that the address names, have their shadow.
// `touches`: the running thread does something to it.
unsigned find(std::uint32_t address, int bytes, bool touches = true) {
  const std::uint32_t whole = cluster_address(address), rank = rank_of_address(whole);
  const unsigned offset = whole & ((1u << rank_shift) - 1);
  const std::uint64_t end = std::uint64_t{offset} + static_cast<unsigned>(bytes);
  if (rank >= cluster_blocks()) return nowhere;
  const bool dynamic = offset >= dynamic_begin && end <= std::uint64_t{dynamic_begin} + launch.dynamic_shared_bytes;
  const bool fixed = offset >= window_begin && end <= std::uint64_t{window_begin} + static_bytes;
  if (!dynamic && !fixed) return nowhere;
  if (touches && self != nullptr && rank != self->rank) touch_block(rank, self->who, clocks.now[self->warp]);
  return static_cast<unsigned>(rank * window_bytes) + offset;
}

unsigned char* bytes_at(unsigned place) {
  const auto rank = static_cast<unsigned>(place / window_bytes), offset = static_cast<unsigned>(place % window_bytes);
  if (offset >= dynamic_begin) return dynamic_memory + std::size_t{rank} * launch.dynamic_shared_bytes + (offset - dynamic_begin);
  return reinterpret_cast<unsigned char*>(static_begin) + std::size_t{rank} * static_bytes + (offset - window_begin);
}

std::string describe_offset(unsigned address) {
  char text[128];
  if (address >= dynamic_begin) {
    std::snprintf(text, sizeof text, "byte %u of %u bytes of dynamic shared memory", address - dynamic_begin,
                  launch.dynamic_shared_bytes);
  } else if (address >= window_begin && address < window_begin + static_bytes) {
    std::snprintf(text, sizeof text, "byte %u of %u bytes of static shared memory", address - window_begin,
                  static_bytes);
  } else {
    std::snprintf(text, sizeof text, "%lld bytes from the start of dynamic shared memory",
                  static_cast<long long>(address) - static_cast<long long>(dynamic_begin));
  }
  return text;
}

std::string of_rank(unsigned rank) {
  return cluster_blocks() == 1 ? "" : " of block " + std::to_string(rank) + " of the cluster";
}

// Of a place in the shadow.
std::string describe_address(unsigned place) {
  return describe_offset(static_cast<unsigned>(place % window_bytes)) + of_rank(static_cast<unsigned>(place / window_bytes));
}

bool has_engines = false;  // bulk copies or mbarriers were used

std::string describe_here(Who who) { return describe(who, block_index); }

// Whether the one who did it is the async proxy: wgmma, or a bulk copy.
bool by_engine(Who who) { return warp_of(who) >= clocks.warps; }

void report_race(unsigned address, Who me, const char* doing, const Stamp& other, const char* did) {
  if (by_engine(other.who)) {
    const bool read = did[0] == 'r';
    const Kind kind = read              ? in_flight_kind(warp_of(other.who))
                      : doing[0] == 'w' ? Kind::shared_race
                                        : Kind::async_read_before_wait;
    if (count_finding(kind, self->site)) {
      write_finding(kind, self->site, "%s %s %s, which %s %s (%s), and nothing says that it is done",
                    describe_here(me).c_str(), doing, describe_address(address).c_str(),
                    describe_here(other.who).c_str(), did, place(other.site).c_str());
    }
    return;
  }
  FINDING(shared_race, self->site, "%s %s %s, which %s %s at %s, and no barrier is in between",
          describe_here(me).c_str(), doing, describe_address(address).c_str(), describe_here(other.who).c_str(), did,
          place(other.site).c_str());
}

// Reports what a thread finds at a byte that is no data yet, or never.
void report_pending(unsigned address, Who me, const char* doing, bool writing) {
  const Pending& p = pending[address];
  if (p.what == Under::mbarrier) {
    FINDING(mbarrier_misuse, self->site, "%s %s %s, where the mbarrier of %s stands, without an mbarrier instruction",
            describe_here(me).c_str(), doing, describe_address(address).c_str(), place(p.site).c_str());
  } else if (p.what == Under::bulk_copy) {
    if (writing) {
      FINDING(shared_race, self->site, "%s %s %s while a bulk copy of %s at %s is under way to it",
              describe_here(me).c_str(), doing, describe_address(address).c_str(), describe_here(p.who).c_str(),
              place(p.site).c_str());
    } else {
      FINDING(async_read_before_wait, self->site,
              "%s %s %s, which the bulk copy of %s at %s has not delivered: its mbarrier has not completed the phase",
              describe_here(me).c_str(), doing, describe_address(address).c_str(), describe_here(p.who).c_str(),
              place(p.site).c_str());
    }
  } else if (writing) {
    FINDING(shared_race, self->site, "%s %s %s while a cp.async of %s at %s is under way to it",
            describe_here(me).c_str(), doing, describe_address(address).c_str(), describe_here(p.who).c_str(),
            place(p.site).c_str());
  } else {
    FINDING(async_read_before_wait, self->site,
            "%s %s %s, which a cp.async of %s at %s has not written yet: its wait comes later or never",
            describe_here(me).c_str(), doing, describe_address(address).c_str(), describe_here(p.who).c_str(),
            place(p.site).c_str());
  }
}

void shadow_read(unsigned address, int bytes, Who me) {
  const unsigned warp = warp_of(me);
  const Stamp mine{clocks.now[warp], me, self->site};
  Stamp* const reads = reads_of(warp);
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    const Stamp& write = last_write[a];
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "reads", false);
      return;
    }
    if (write.epoch < clocks.first) {
      FINDING(uninitialized_shared_read, self->site, "%s reads %s, which nobody has written yet",
              describe_here(me).c_str(), describe_address(a).c_str());
      return;
    }
    if (!clocks.ordered(write.who, write.epoch, me) && !both_strong(write)) {
      report_race(a, me, "reads", write, "wrote");
      return;
    }
    Stamp& read = reads[a];
    const bool others_too = read.epoch == mine.epoch && read.who != me;
    read = mine;
    if (others_too) read.who = who_of(warp, whole_warp);
    readers[a] |= 1u << warp % 32;
  }
}

// The newest read of a byte that did not happen before what `me` does, or nullptr.
const Stamp* unordered_read(unsigned a, Who me) {
  for (std::uint32_t left = readers[a]; left != 0; left &= left - 1) {
    for (auto actor = static_cast<unsigned>(__builtin_ctz(left)); actor < clocks.actors; actor += 32) {
      if (last_read[actor] == nullptr) continue;
      const Stamp& read = last_read[actor][a];
      if (read.epoch >= clocks.first && !clocks.ordered(read.who, read.epoch, me) && !both_strong(read)) return &read;
    }
  }
  return nullptr;
}

// Reports at most one race; returns whether there was none. Lanes of a warp may write one value with one instruction:
// "only one thread performs a write, and which thread does it is undefined" (CUDA Programming Guide, SIMT architecture).
bool check_write(unsigned address, int bytes, Who me, bool same_value = false) {
  for (unsigned a = address; a < address + static_cast<unsigned>(bytes); ++a) {
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "writes", true);
      return false;
    }
    const Stamp& write = last_write[a];
    const bool together = same_value && write.site == self->site && warp_of(write.who) == warp_of(me);
    if (write.epoch >= clocks.first && !together && !clocks.ordered(write.who, write.epoch, me) &&
        !both_strong(write)) {
      report_race(a, me, "writes", write, "wrote");
      return false;
    }
    if (const Stamp* read = unordered_read(a, me)) {
      report_race(a, me, "writes", *read, "read");
      return false;
    }
  }
  return true;
}

void mark_written(unsigned address, int bytes, Who me, SiteIndex site) {
  const Stamp mine{clocks.now[warp_of(me)], me, site};
  std::fill_n(last_write + address, bytes, mine);
  std::fill_n(readers + address, bytes, 0u);
}

void shadow_write(unsigned address, int bytes, Who me, bool same_value = false) {
  check_write(address, bytes, me, same_value);
  mark_written(address, bytes, me, self->site);
}

bool check_alignment(unsigned address, int alignment, const char* instruction) {
  if (address % static_cast<unsigned>(alignment) == 0) return true;
  FINDING(misaligned_access, self->site, "%s: %s of %s is not aligned to %d bytes", describe_self().c_str(),
          instruction, describe_shared(address).c_str(), alignment);
  return false;
}

void report_out_of_bounds(unsigned address, int bytes, const char* instruction) {
  FINDING(out_of_bounds_shared, self->site, "%s: %s of %d bytes at %s", describe_self().c_str(), instruction, bytes,
          describe_shared(address).c_str());
}

// The copy reaches shared memory.
void land(const AsyncCopy& copy) {
  std::memcpy(bytes_at(copy.shared), copy.data, static_cast<std::size_t>(copy.bytes));
  if (!launch.check) return;
  for (int i = 0; i < copy.bytes; ++i) pending[copy.shared + static_cast<unsigned>(i)].what = Under::nothing;
  mark_written(copy.shared, copy.bytes, self->who, copy.site);
}

}  // namespace

void reserve_dynamic_shared() {
  dynamic_memory = zeroed_array<unsigned char>(std::size_t{launch.dynamic_shared_bytes} * cluster_blocks());
}

void reserve_shared(char* begin, std::size_t bytes) {
  static_begin = begin;
  static_bytes = static_cast<unsigned>(bytes);
  dynamic_begin = (window_begin + static_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
  window_bytes = std::size_t{dynamic_begin} + launch.dynamic_shared_bytes;
  const std::size_t all = window_bytes * cluster_blocks();
  last_write = zeroed_array<Stamp>(all);
  pending = zeroed_array<Pending>(all);
  readers = zeroed_array<std::uint32_t>(all);
}

void start_block_shared() {
  std::memset(dynamic_memory, 0xff, std::size_t{launch.dynamic_shared_bytes} * cluster_blocks());
  if (static_bytes != 0) std::memset(static_begin, 0xff, std::size_t{static_bytes} * cluster_blocks());
  remote_uses.clear();
}

void end_block_shared() {
  for (Thread& t : threads) {
    for (const AsyncCopy& copy : t.copies) {
      for (int i = 0; i < copy.bytes; ++i) pending[copy.shared + static_cast<unsigned>(i)].what = Under::nothing;
    }
  }
  if (has_engines) std::fill_n(pending, window_bytes * cluster_blocks(), Pending{});
}

unsigned shared_memory() { return dynamic_begin; }

void* dynamic_shared() { return dynamic_memory; }

unsigned shared_address_of(const void* variable, Site site) {
  const char* p = static_cast<const char*>(variable);
  if (static_begin != nullptr && p >= static_begin && p < static_begin + static_bytes) {
    return window_begin + static_cast<unsigned>(p - static_begin);
  }
  const char* dynamic = reinterpret_cast<const char*>(dynamic_memory);
  if (p >= dynamic && p < dynamic + launch.dynamic_shared_bytes) {
    return dynamic_begin + static_cast<unsigned>(p - dynamic);
  }
  FINDING(invalid_argument, site_index(site),
          "%s: __cvta_generic_to_shared of a pointer that is no __shared__ variable", describe_self().c_str());
  return 0;
}

void read_shared(void* to, unsigned address, int bytes, const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return;
  }
  check_alignment(address, bytes, instruction);
  std::memcpy(to, bytes_at(place), static_cast<std::size_t>(bytes));
  if (launch.check) shadow_read(place, bytes, self->who);
}

void write_shared(unsigned address, const void* from, int bytes, const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return;
  }
  unsigned char* const to = bytes_at(place);
  check_alignment(address, bytes, instruction);
  if (launch.check) {
    const bool same_value = std::memcmp(to, from, static_cast<std::size_t>(bytes)) == 0;
    shadow_write(place, bytes, self->who, same_value);
  }
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

unsigned char* update_shared(unsigned address, int bytes, const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  check_alignment(address, bytes, instruction);
  if (launch.check) {
    if (last_write[place].epoch < clocks.first) {
      FINDING(uninitialized_shared_read, self->site, "%s updates %s, which nobody has written yet",
              describe_self().c_str(), describe_address(place).c_str());
    }
    shadow_write(place, bytes, self->who);
  }
  return bytes_at(place);
}

bool shared_window_holds(unsigned address, int bytes) { return find(address, bytes) != nowhere; }

void mark_strong(SiteIndex site) {
  if (site >= strong_sites.size()) strong_sites.resize(site + std::size_t{64});
  strong_sites[site] = true;
}

void load_shared(void* to, unsigned address, int bytes, Site site) {
  self->site = site_index(site);
  count_shared(self->site, "ld.shared", bytes, address);
  read_shared(to, address, bytes, "ld.shared");
}

void store_shared(unsigned address, const void* from, int bytes, Site site) {
  self->site = site_index(site);
  count_shared(self->site, "st.shared", bytes, address);
  write_shared(address, from, bytes, "st.shared");
}

void copy_async(unsigned shared, const void* global, int bytes, int source_bytes, Site site) {
  self->site = site_index(site);
  count_shared(self->site, "cp.async", bytes, shared);
  if (source_bytes > 0 && source_bytes <= bytes) count_global(self->site, "cp.async", bytes, global);
  start_copy(shared, global, bytes, source_bytes);
}

void start_copy(unsigned shared, const void* global, int bytes, int source_bytes) {
  if (source_bytes < 0 || source_bytes > bytes) {
    FINDING(invalid_argument, self->site, "%s: cp.async of %d bytes takes %d bytes from global memory",
            describe_self().c_str(), bytes, source_bytes);
    return;
  }
  AsyncCopy copy{shared, bytes, self->group, self->site, {}};
  if (reinterpret_cast<std::uintptr_t>(global) % static_cast<unsigned>(bytes) != 0) {
    FINDING(misaligned_access, self->site, "%s: the global address of a cp.async of %d bytes is not aligned to it",
            describe_self().c_str(), bytes);
  }
  if (source_bytes > 0) {
    if (check_global_read(global, source_bytes, self->site)) {
      std::memcpy(copy.data, global, static_cast<std::size_t>(source_bytes));
    } else {
      std::memset(copy.data, 0xff, static_cast<std::size_t>(source_bytes));
    }
  }
  const unsigned place = find(shared, bytes);
  if (place == nowhere) {
    report_out_of_bounds(shared, bytes, "cp.async");
    return;
  }
  check_alignment(shared, bytes, "cp.async");
  copy.shared = place;
  if (launch.check) {
    // From now until the wait the bytes may change at any moment.
    check_write(place, bytes, self->who);
    for (int i = 0; i < bytes; ++i) pending[place + static_cast<unsigned>(i)] = {Under::cp_async, self->who, self->site};
  }
  self->copies.push_back(copy);
}

void commit_copies() { ++self->group; }

void commit_group(Site site) {
  self->site = site_index(site);
  commit_copies();
}

void wait_group(int in_flight, Site site) {
  self->site = site_index(site);
  wait_copies(in_flight);
}

void wait_copies(int in_flight) {
  // Groups complete in the order of their commits; the open group is not waited for.
  auto& copies = self->copies;
  std::size_t landed = 0;
  while (landed < copies.size() && copies[landed].group + static_cast<unsigned>(in_flight) < self->group) {
    land(copies[landed++]);
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(landed));
}

unsigned char* collective_shared_access(Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  check_alignment(address, alignment, instruction);
  if (launch.check) {
    const Who warp = who_of(self->warp, whole_warp);
    if (access == Access::read) {
      shadow_read(place, bytes, warp);
    } else {
      shadow_write(place, bytes, warp);
    }
  }
  return bytes_at(place);
}

bool check_shared(unsigned address, int bytes, int alignment, const char* instruction) {
  if (find(address, bytes, false) == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return false;
  }
  check_alignment(address, alignment, instruction);
  return true;
}

bool start_bulk_write(unsigned address, int bytes) {
  has_engines = true;
  const unsigned place = find(address, bytes, false);
  if (!launch.check || place == nowhere) return true;
  const bool good = check_write(place, bytes, self->who);
  std::fill_n(pending + place, bytes, Pending{Under::bulk_copy, self->who, self->site});
  return good;
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
}

const unsigned char* read_by_engine(unsigned address, int bytes, Who me, unsigned actor, Epoch epoch,
                                    const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  const unsigned char* from = bytes_at(place);
  if (!launch.check) return from;
  Stamp checked{};
  for (unsigned a = place; a < place + static_cast<unsigned>(bytes); ++a) {
    if (pending[a].what != Under::nothing) {
      report_pending(a, me, "reads", false);
      break;
    }
    const Stamp& write = last_write[a];
    if (write.epoch == checked.epoch && write.who == checked.who && write.site == checked.site) continue;
    checked = write;
    if (write.epoch < clocks.first) {
      FINDING(uninitialized_shared_read, self->site, "%s: %s reads %s, which nobody has written yet",
              describe_here(me).c_str(), instruction, describe_address(a).c_str());
      break;
    }
    if (!clocks.ordered(write.who, write.epoch, me)) {
      report_race(a, me, "reads", write, "wrote");
      break;
    }
    if (!by_engine(write.who) && !clocks.proxied(write.who, write.epoch, me)) {
      FINDING(missing_proxy_fence, self->site,
              "%s: %s reads %s, which %s wrote at %s, and no fence.proxy.async stands in between",
              describe_here(me).c_str(), instruction, describe_address(a).c_str(), describe_here(write.who).c_str(),
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
            describe_self().c_str(), instruction, describe_address(place).c_str(), describe_here(write.who).c_str(),
            emulator::place(write.site).c_str());
    return false;
  }
  return !to_engine || clocks.proxied(write.who, write.epoch, self->who);
}

std::string describe_shared(unsigned address) {
  const std::uint32_t whole = cluster_address(address);
  return describe_offset(whole & ((1u << rank_shift) - 1)) + of_rank(rank_of_address(whole));
}

std::uint32_t cluster_address(std::uint32_t address) {
  if (address >> rank_shift != 0) return address;
  return address | ((self != nullptr ? self->rank : 0) + 1) << rank_shift;
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
