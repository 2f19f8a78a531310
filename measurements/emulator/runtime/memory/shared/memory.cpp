// The block's shared memory: its window, and what threads do to it.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "memory/garbage.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "memory/shared/shadow.hpp"

namespace autosched::emulator {

using namespace shared_shadow;

namespace {

// The window begins with a reserved kilobyte, as on sm_90; then the kernel's static variables, then dynamic memory.
constexpr unsigned window_begin = reserved_shared_bytes;
constexpr unsigned dynamic_alignment = 1024;

unsigned static_bytes = 0;
unsigned dynamic_begin = 0;
unsigned char* static_memory = nullptr;
unsigned char* dynamic_memory = nullptr;
unsigned char* reserved_memory = nullptr;  // for those who ask where it is, as cooperative groups do
Parked<unsigned char*> parked_memory[] = {Parked(static_memory), Parked(dynamic_memory), Parked(reserved_memory)};

struct SharedArray {
  std::string name;
  unsigned begin, bytes;
};
std::vector<SharedArray> arrays;  // static ones

// The static array that an address is in, or nearest to; nullptr where there is none.
const SharedArray* nearest_array(unsigned address) {
  const auto distance = [&](const SharedArray& a) {
    return address < a.begin ? a.begin - address : address < a.begin + a.bytes ? 0 : address - (a.begin + a.bytes) + 1;
  };
  const auto nearest = std::min_element(arrays.begin(), arrays.end(),
                                        [&](const SharedArray& a, const SharedArray& b) { return distance(a) < distance(b); });
  return nearest == arrays.end() ? nullptr : &*nearest;
}

std::string describe_offset(unsigned address) {
  char text[512];
  const SharedArray* array = nearest_array(address);
  const bool is_dynamic = address >= dynamic_begin && (launch.dynamic_shared_bytes != 0 || array == nullptr);
  if (is_dynamic) {
    std::snprintf(text, sizeof text, "byte %u of %u bytes of dynamic shared memory", address - dynamic_begin,
                  launch.dynamic_shared_bytes);
  } else if (array != nullptr && address < array->begin) {
    std::snprintf(text, sizeof text, "%u bytes before %s (%u bytes of shared memory)", array->begin - address,
                  array->name.c_str(), array->bytes);
  } else if (array != nullptr) {
    std::snprintf(text, sizeof text, "byte %u of %s (%u bytes of shared memory)", address - array->begin,
                  array->name.c_str(), array->bytes);
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

// The copy reaches shared memory.
void land(const AsyncCopy& copy) {
  std::memcpy(bytes_at(copy.shared), copy.data, static_cast<std::size_t>(copy.bytes));
  if (!launch.check) return;
  for (int i = 0; i < copy.bytes; ++i) pending[copy.shared + static_cast<unsigned>(i)].what = Under::nothing;
  mark_written(copy.shared, copy.bytes, self->who, copy.site);
}

}  // namespace

namespace shared_shadow {

std::size_t window_bytes = 0;

unsigned find(std::uint32_t address, int bytes, bool touches) {
  const std::uint32_t whole = cluster_address(address), rank = rank_of_address(whole);
  const unsigned offset = whole & ((1u << rank_shift) - 1);
  const std::uint64_t end = std::uint64_t{offset} + static_cast<unsigned>(bytes);
  if (rank >= cluster_blocks()) return nowhere;
  const bool dynamic = offset >= dynamic_begin && end <= std::uint64_t{dynamic_begin} + launch.dynamic_shared_bytes;
  const bool fixed = offset >= window_begin && end <= std::uint64_t{window_begin} + static_bytes;
  const bool reserved = launch.uses_reserved_shared && end <= window_begin;
  if (!dynamic && !fixed && !reserved) return nowhere;
  if (touches && self != nullptr && rank != self->rank) touch_block(rank, self->who, clocks.now[self->warp]);
  return static_cast<unsigned>(rank * window_bytes) + offset;
}

unsigned char* bytes_at(unsigned place) {
  const auto rank = place < window_bytes ? 0u : static_cast<unsigned>(place / window_bytes);
  const auto offset = static_cast<unsigned>(place - rank * window_bytes);
  if (offset < window_begin) return reserved_memory + std::size_t{rank} * window_begin + offset;
  if (offset >= dynamic_begin) return dynamic_memory + std::size_t{rank} * launch.dynamic_shared_bytes + (offset - dynamic_begin);
  return static_memory + std::size_t{rank} * static_bytes + (offset - window_begin);
}

std::string describe_place(unsigned place) {
  return describe_offset(static_cast<unsigned>(place % window_bytes)) + of_rank(static_cast<unsigned>(place / window_bytes));
}

bool check_alignment(unsigned address, int alignment, const char* instruction) {
  if ((address & static_cast<unsigned>(alignment - 1)) == 0) return true;  // a power of two
  FINDING(misaligned_access, self->site, "%s: %s of %s is not aligned to %d bytes", describe_self().c_str(),
          instruction, describe_shared(address).c_str(), alignment);
  return false;
}

void report_out_of_bounds(unsigned address, int bytes, const char* instruction) {
  FINDING(out_of_bounds_shared, self->site, "%s: %s of %d bytes at %s", describe_self().c_str(), instruction, bytes,
          describe_shared(address).c_str());
}

}  // namespace shared_shadow

void name_shared(std::string name, unsigned begin, unsigned bytes) { arrays.push_back({std::move(name), begin, bytes}); }

void reserve_shared(std::size_t bytes) {
  static_bytes = static_cast<unsigned>(bytes);
  dynamic_begin = (window_begin + static_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
  window_bytes = std::size_t{dynamic_begin} + launch.dynamic_shared_bytes;
}

void allot_shared() {
  static_memory = zeroed_array<unsigned char>(std::size_t{static_bytes} * cluster_blocks());
  reserved_memory = zeroed_array<unsigned char>(std::size_t{window_begin} * cluster_blocks());
  dynamic_memory = zeroed_array<unsigned char>(std::size_t{launch.dynamic_shared_bytes} * cluster_blocks());
  reserve_shadow();
}

void start_block_shared() {
  const std::size_t of_dynamic = std::size_t{launch.dynamic_shared_bytes} * cluster_blocks();
  const std::size_t of_static = std::size_t{static_bytes} * cluster_blocks();
  if (garbage != 0) {
    fill_garbage(dynamic_memory, of_dynamic);
    fill_garbage(static_memory, of_static);
  } else {
    std::memset(dynamic_memory, 0xff, of_dynamic);
    std::memset(static_memory, 0xff, of_static);
  }
  if (launch.uses_reserved_shared) {
    // Zero when a block begins: the barriers that cooperative groups keep there are never initialized.
    std::memset(reserved_memory, 0, std::size_t{window_begin} * cluster_blocks());
    for (unsigned rank = 0; rank < cluster_blocks(); ++rank) {
      std::fill_n(last_write + rank * window_bytes, window_begin, Stamp{clocks.first, who_of(0, whole_warp), 0});
    }
    clocks.begin();
  }
  unknown.clear();
  forget_earlier_writes();
  forget_remote_uses();
}

void end_block_shared() {
  for (Thread& t : threads) {
    for (const AsyncCopy& copy : t.copies) {
      for (int i = 0; i < copy.bytes; ++i) pending[copy.shared + static_cast<unsigned>(i)].what = Under::nothing;
    }
  }
  if (has_engines) std::fill_n(pending, window_bytes * cluster_blocks(), Pending{});
}

// A byte has its last write, what is under way to it, two masks, and the last read of each warp.
std::size_t shared_books_bytes() {
  const std::size_t each = 1 + sizeof(Stamp) + sizeof(Pending) + 2 * sizeof(std::uint32_t) + warp_count * sizeof(Stamp);
  return window_bytes * cluster_blocks() * each;
}

unsigned dynamic_shared_address() { return dynamic_begin; }

bool read_shared(void* to, unsigned address, int bytes, const char* instruction, bool lazily) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return true;
  }
  check_alignment(address, bytes, instruction);
  std::memcpy(to, bytes_at(place), static_cast<std::size_t>(bytes));
  return !launch.check || shadow_read(place, bytes, self->who, lazily);
}

void write_shared(unsigned address, const void* from, int bytes, const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return;
  }
  unsigned char* const to = bytes_at(place);
  check_alignment(address, bytes, instruction);
  if (idle_polls.met() && idle_polls.vain() != 0 && std::memcmp(to, from, static_cast<std::size_t>(bytes)) != 0) idle_polls.move();
  if (launch.check) shadow_write(place, bytes, self->who, from);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

SiteIndex known_shared(unsigned address, int bytes, unsigned char* bits) {
  const unsigned place = find(address, bytes, false);
  SiteIndex origin = self->site;
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    bits[k] = place == nowhere || last_write[place + k].epoch >= clocks.first ? 0xff : 0;
    const auto found = unknown.find(place + k);
    if (found == unknown.end()) continue;
    bits[k] &= found->second.known;
    origin = found->second.origin;
  }
  return origin;
}

void note_unknown_shared(unsigned address, int bytes, const unsigned char* bits, SiteIndex origin) {
  const unsigned place = find(address, bytes, false);
  if (place == nowhere || !launch.check) return;
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    if (bits[k] == 0xff) continue;
    const auto [found, fresh] = unknown.try_emplace(place + k, Unknown{bits[k], origin});
    if (!fresh) found->second.known &= bits[k];  // values of several threads, one of which is not known either
  }
}

unsigned char* update_shared(unsigned address, int bytes, const char* instruction) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  check_alignment(address, bytes, instruction);
  if (launch.check) {
    check_taken(place, bytes, self->who);
    shadow_update(place, bytes, self->who);
  }
  return bytes_at(place);
}

bool shared_window_holds(unsigned address, int bytes) { return find(address, bytes) != nowhere; }

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
    if (check_global_read(global, source_bytes)) {
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
                                        const char* instruction, const void* value, bool* whole) {
  const unsigned place = find(address, bytes);
  if (place == nowhere) {
    report_out_of_bounds(address, bytes, instruction);
    return nullptr;
  }
  check_alignment(address, alignment, instruction);
  if (launch.check) {
    const Who warp = who_of(self->warp, whole_warp);
    if (access == Access::read) {
      const bool known = shadow_read(place, bytes, warp, whole != nullptr);
      if (whole != nullptr) *whole = known;
    } else {
      shadow_write(place, bytes, warp, value);
    }
  }
  return bytes_at(place);
}

std::string describe_shared(unsigned address) {
  const std::uint32_t whole = cluster_address(address);
  return describe_offset(whole & ((1u << rank_shift) - 1)) + of_rank(rank_of_address(whole));
}

std::uint32_t cluster_address(std::uint32_t address) {
  if ((address & names_block) != 0) return address;
  return address | names_block | (self != nullptr ? self->rank : 0) << rank_shift;
}

}  // namespace autosched::emulator
