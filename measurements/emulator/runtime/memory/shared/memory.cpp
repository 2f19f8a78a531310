// The shared memory of a block: the layout of its window, and accesses of threads.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "machine/part.hpp"
#include "memory/poison.hpp"
#include "memory/global/memory.hpp"
#include "memory/shared/async.hpp"
#include "memory/shared/memory.hpp"
#include "memory/shared/shadow.hpp"

namespace autosched::emulator {

using namespace shared_shadow;

// Host memory in which the shared memory of the running blocks is stored. Also stores the names of static arrays.
struct SharedMemory : Unit {
  using Unit::Unit;

  struct SharedArray {
    std::string name;
    unsigned begin, bytes;
  };
  unsigned static_bytes = 0;
  unsigned dynamic_begin = 0;
  unsigned char* static_memory = nullptr;
  unsigned char* dynamic_memory = nullptr;
  // the reserved kilobyte, for kernels that read its address, such as those with cooperative groups
  unsigned char* reserved_memory = nullptr;
  std::vector<SharedArray> arrays;  // static arrays
  Parked<unsigned char*> parked_memory[3] = {{parking, static_memory}, {parking, dynamic_memory}, {parking, reserved_memory}};
};

namespace {
using SharedArray = SharedMemory::SharedArray;
}  // namespace

namespace {

// The window begins with a reserved kilobyte, as on sm_90, followed by the kernel's static variables and dynamic
// memory.
constexpr unsigned window_begin = reserved_shared_bytes;
constexpr unsigned dynamic_alignment = 1024;

// The static array that contains an address, or otherwise the nearest one. nullptr if there are no static arrays.
const SharedArray* nearest_array(Machine& machine, unsigned address) {
  const auto distance = [&](const SharedArray& a) {
    return address < a.begin ? a.begin - address : address < a.begin + a.bytes ? 0 : address - (a.begin + a.bytes) + 1;
  };
  const auto nearest = std::min_element(machine.shared_memory.arrays.begin(), machine.shared_memory.arrays.end(),
                                        [&](const SharedArray& a, const SharedArray& b) { return distance(a) < distance(b); });
  return nearest == machine.shared_memory.arrays.end() ? nullptr : &*nearest;
}

std::string describe_offset(Machine& machine, unsigned address) {
  char text[512];
  const SharedArray* array = nearest_array(machine, address);
  const bool is_dynamic =
      address >= machine.shared_memory.dynamic_begin && (machine.launch.dynamic_shared_bytes != 0 || array == nullptr);
  if (is_dynamic) {
    std::snprintf(text, sizeof text, "byte %u of %u bytes of dynamic shared memory", address - machine.shared_memory.dynamic_begin,
                  machine.launch.dynamic_shared_bytes);
  } else if (array != nullptr && address < array->begin) {
    std::snprintf(text, sizeof text, "%u bytes before %s (%u bytes of shared memory)", array->begin - address,
                  array->name.c_str(), array->bytes);
  } else if (array != nullptr) {
    std::snprintf(text, sizeof text, "byte %u of %s (%u bytes of shared memory)", address - array->begin,
                  array->name.c_str(), array->bytes);
  } else if (address >= window_begin && address < window_begin + machine.shared_memory.static_bytes) {
    std::snprintf(text, sizeof text, "byte %u of %u bytes of static shared memory", address - window_begin,
                  machine.shared_memory.static_bytes);
  } else {
    std::snprintf(text, sizeof text, "%lld bytes from the start of dynamic shared memory",
                  static_cast<long long>(address) - static_cast<long long>(machine.shared_memory.dynamic_begin));
  }
  return text;
}

std::string of_rank(Machine& machine, unsigned rank) {
  return cluster_blocks(machine) == 1 ? "" : " of block " + std::to_string(rank) + " of the cluster";
}

// Completes a cp.async copy by writing its data to shared memory.
void land(Machine& machine, const AsyncCopy& copy) {
  std::memcpy(bytes_at(machine, copy.shared), copy.data, static_cast<std::size_t>(copy.bytes));
  if (!machine.launch.check) return;
  for (int i = 0; i < copy.bytes; ++i)
    machine.shared_uses.pending[copy.shared + static_cast<unsigned>(i)].kind = InFlight::nothing;
  mark_written(machine, copy.shared, copy.bytes, machine.self->agent, copy.site);
}

}  // namespace

namespace shared_shadow {

unsigned find(Machine& machine, std::uint32_t address, int bytes, bool touches) {
  const std::uint32_t whole = cluster_address(machine, address), rank = rank_of_address(whole);
  const unsigned offset = whole & ((1u << rank_shift) - 1);
  const std::uint64_t end = std::uint64_t{offset} + static_cast<unsigned>(bytes);
  if (rank >= cluster_blocks(machine)) return no_position;
  const bool dynamic = offset >= machine.shared_memory.dynamic_begin &&
                       end <= std::uint64_t{machine.shared_memory.dynamic_begin} + machine.launch.dynamic_shared_bytes;
  const bool fixed = offset >= window_begin && end <= std::uint64_t{window_begin} + machine.shared_memory.static_bytes;
  const bool reserved = machine.launch.uses_reserved_shared && end <= window_begin;
  if (!dynamic && !fixed && !reserved) return no_position;
  if (touches && machine.self != nullptr && rank != machine.self->rank)
    touch_block(machine, rank, machine.self->agent, machine.clocks.now[machine.self->warp]);
  return static_cast<unsigned>(rank * machine.shared_uses.window_bytes) + offset;
}

unsigned char* bytes_at(Machine& machine, unsigned position) {
  const auto rank =
      position < machine.shared_uses.window_bytes ? 0u : static_cast<unsigned>(position / machine.shared_uses.window_bytes);
  const auto offset = static_cast<unsigned>(position - rank * machine.shared_uses.window_bytes);
  if (offset < window_begin) return machine.shared_memory.reserved_memory + std::size_t{rank} * window_begin + offset;
  if (offset >= machine.shared_memory.dynamic_begin)
    return machine.shared_memory.dynamic_memory + std::size_t{rank} * machine.launch.dynamic_shared_bytes +
           (offset - machine.shared_memory.dynamic_begin);
  return machine.shared_memory.static_memory + std::size_t{rank} * machine.shared_memory.static_bytes + (offset - window_begin);
}

std::string describe_position(Machine& machine, unsigned position) {
  return describe_offset(machine, static_cast<unsigned>(position % machine.shared_uses.window_bytes)) +
         of_rank(machine, static_cast<unsigned>(position / machine.shared_uses.window_bytes));
}

bool check_alignment(Machine& machine, unsigned address, int alignment, const char* instruction) {
  if ((address & static_cast<unsigned>(alignment - 1)) == 0) return true;  // alignment is a power of two
  FINDING(machine.report, misaligned_access, machine.self->site, "%s: %s of %s is not aligned to %d bytes",
          describe_self(machine).c_str(), instruction, describe_shared(machine, address).c_str(), alignment);
  return false;
}

void report_out_of_bounds(Machine& machine, unsigned address, int bytes, const char* instruction) {
  if (const unsigned own = address - low_word_of_windows; find(machine, own, bytes, false) != no_position) {
    FINDING(machine.report, out_of_bounds_shared, machine.self->site,
            "%s: %s of %d bytes at a generic address that was truncated to 32 bits (of %s): convert it with "
            "__cvta_generic_to_shared",
            describe_self(machine).c_str(), instruction, bytes, describe_shared(machine, own).c_str());
    return;
  }
  FINDING(machine.report, out_of_bounds_shared, machine.self->site, "%s: %s of %d bytes at %s", describe_self(machine).c_str(),
          instruction, bytes, describe_shared(machine, address).c_str());
}

}  // namespace shared_shadow

void name_shared(Machine& machine, std::string name, unsigned begin, unsigned bytes) {
  machine.shared_memory.arrays.push_back({std::move(name), begin, bytes});
}

void reserve_shared(Machine& machine, std::size_t bytes) {
  machine.shared_memory.static_bytes = static_cast<unsigned>(bytes);
  machine.shared_memory.dynamic_begin =
      (window_begin + machine.shared_memory.static_bytes + dynamic_alignment - 1) / dynamic_alignment * dynamic_alignment;
  machine.shared_uses.window_bytes = std::size_t{machine.shared_memory.dynamic_begin} + machine.launch.dynamic_shared_bytes;
}

void allot_shared(Machine& machine) {
  machine.shared_memory.static_memory =
      zeroed_array<unsigned char>(machine, std::size_t{machine.shared_memory.static_bytes} * cluster_blocks(machine));
  machine.shared_memory.reserved_memory = zeroed_array<unsigned char>(machine, std::size_t{window_begin} * cluster_blocks(machine));
  machine.shared_memory.dynamic_memory =
      zeroed_array<unsigned char>(machine, std::size_t{machine.launch.dynamic_shared_bytes} * cluster_blocks(machine));
  reserve_shadow(machine);
}

void start_block_shared(Machine& machine) {
  const std::size_t of_dynamic = std::size_t{machine.launch.dynamic_shared_bytes} * cluster_blocks(machine);
  const std::size_t of_static = std::size_t{machine.shared_memory.static_bytes} * cluster_blocks(machine);
  if (machine.poison != 0) {
    fill_poison(machine, machine.shared_memory.dynamic_memory, of_dynamic);
    fill_poison(machine, machine.shared_memory.static_memory, of_static);
  } else {
    std::memset(machine.shared_memory.dynamic_memory, 0xff, of_dynamic);
    std::memset(machine.shared_memory.static_memory, 0xff, of_static);
  }
  if (machine.launch.uses_reserved_shared) {
    // Reserved memory is zero when a block starts, because cooperative groups never initialise the barriers that they
    // keep in it.
    std::memset(machine.shared_memory.reserved_memory, 0, std::size_t{window_begin} * cluster_blocks(machine));
    for (unsigned rank = 0; rank < cluster_blocks(machine); ++rank) {
      std::fill_n(machine.shared_uses.last_write + rank * machine.shared_uses.window_bytes, window_begin,
                  Stamp{machine.clocks.first, agent_of(0, whole_warp), 0});
    }
    machine.clocks.begin();
  }
  machine.shared_uses.unknown.clear();
  forget_earlier_writes(machine);
  forget_remote_uses(machine);
}

void end_block_shared(Machine& machine) {
  for (Thread& t : machine.threads) {
    for (const AsyncCopy& copy : t.copies) {
      for (int i = 0; i < copy.bytes; ++i)
        machine.shared_uses.pending[copy.shared + static_cast<unsigned>(i)].kind = InFlight::nothing;
    }
  }
  if (machine.shared_uses.has_engines)
    std::fill_n(machine.shared_uses.pending, machine.shared_uses.window_bytes * cluster_blocks(machine), Pending{});
}

// For each byte of shared memory there are: the byte itself, its last write, its state in flight, two masks, and the
// last read of each warp.
std::size_t shared_books_bytes(Machine& machine) {
  const std::size_t each = 1 + sizeof(Stamp) + sizeof(Pending) + 2 * sizeof(std::uint32_t) + machine.warp_count * sizeof(Stamp);
  return machine.shared_uses.window_bytes * cluster_blocks(machine) * each;
}

unsigned dynamic_shared_address(Machine& machine) { return machine.shared_memory.dynamic_begin; }

bool read_shared(Machine& machine, void* to, unsigned address, int bytes, const char* instruction, bool lazily) {
  const unsigned position = find(machine, address, bytes);
  if (position == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return true;
  }
  check_alignment(machine, address, bytes, instruction);
  std::memcpy(to, bytes_at(machine, position), static_cast<std::size_t>(bytes));
  return !machine.launch.check || shadow_read(machine, position, bytes, machine.self->agent, lazily);
}

void write_shared(Machine& machine, unsigned address, const void* from, int bytes, const char* instruction) {
  const unsigned position = find(machine, address, bytes);
  if (position == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    return;
  }
  unsigned char* const to = bytes_at(machine, position);
  check_alignment(machine, address, bytes, instruction);
  if (machine.idle_polls.met() && machine.idle_polls.vain() != 0 && std::memcmp(to, from, static_cast<std::size_t>(bytes)) != 0)
    machine.idle_polls.move();
  if (machine.launch.check) shadow_write(machine, position, bytes, machine.self->agent, from);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

SiteIndex known_shared(Machine& machine, unsigned address, int bytes, unsigned char* bits) {
  const unsigned position = find(machine, address, bytes, false);
  SiteIndex origin = machine.self->site;
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    bits[k] = position == no_position || machine.shared_uses.last_write[position + k].epoch >= machine.clocks.first ? 0xff : 0;
    const auto unknown = machine.shared_uses.unknown.find(position + k);
    if (unknown == machine.shared_uses.unknown.end()) continue;
    bits[k] &= unknown->second.known;
    origin = unknown->second.origin;
  }
  return origin;
}

void note_unknown_shared(Machine& machine, unsigned address, int bytes, const unsigned char* bits, SiteIndex origin) {
  const unsigned position = find(machine, address, bytes, false);
  if (position == no_position || !machine.launch.check) return;
  for (unsigned k = 0; k < static_cast<unsigned>(bytes); ++k) {
    if (bits[k] == 0xff) continue;
    const auto [unknown, fresh] = machine.shared_uses.unknown.try_emplace(position + k, SharedUses::Unknown{bits[k], origin});
    if (!fresh) unknown->second.known &= bits[k];  // another thread may have stored an unknown value, too
  }
}

unsigned char* update_shared(Machine& machine, unsigned address, int bytes, const char* instruction) {
  const unsigned position = find(machine, address, bytes);
  if (position == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    return nullptr;
  }
  check_alignment(machine, address, bytes, instruction);
  if (machine.launch.check) {
    check_taken(machine, position, bytes, machine.self->agent);
    shadow_update(machine, position, bytes, machine.self->agent);
  }
  return bytes_at(machine, position);
}

bool shared_window_holds(Machine& machine, unsigned address, int bytes) { return find(machine, address, bytes) != no_position; }

void start_copy(Machine& machine, unsigned shared, const void* global, int bytes, int source_bytes) {
  if (source_bytes < 0 || source_bytes > bytes) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "%s: cp.async of %d bytes reads %d bytes from global memory",
            describe_self(machine).c_str(), bytes, source_bytes);
    return;
  }
  AsyncCopy copy{shared, bytes, machine.self->group, machine.self->site, {}};
  if (reinterpret_cast<std::uintptr_t>(global) % static_cast<unsigned>(bytes) != 0) {
    FINDING(machine.report, misaligned_access, machine.self->site,
            "%s: the global address of a cp.async of %d bytes is not aligned to this size",
            describe_self(machine).c_str(), bytes);
  }
  if (source_bytes > 0) {
    if (check_global_read(machine, global, source_bytes)) {
      std::memcpy(copy.data, global, static_cast<std::size_t>(source_bytes));
    } else {
      std::memset(copy.data, 0xff, static_cast<std::size_t>(source_bytes));
    }
  }
  const unsigned position = find(machine, shared, bytes);
  if (position == no_position) {
    report_out_of_bounds(machine, shared, bytes, "cp.async");
    return;
  }
  check_alignment(machine, shared, bytes, "cp.async");
  copy.shared = position;
  if (machine.launch.check) {
    // Until the wait, the bytes are in flight: they may change at any time.
    check_write(machine, position, bytes, machine.self->agent);
    std::fill_n(machine.shared_uses.pending + position, bytes,
                Pending{InFlight::cp_async, machine.self->agent, machine.self->site});
  }
  machine.self->copies.push_back(copy);
}

void commit_copies(Machine& machine) { ++machine.self->group; }

void wait_copies(Machine& machine, int in_flight) {
  // Groups complete in the order of their commits. A wait does not wait for the open group.
  auto& copies = machine.self->copies;
  std::size_t landed = 0;
  while (landed < copies.size() && copies[landed].group + static_cast<unsigned>(in_flight) < machine.self->group) {
    land(machine, copies[landed++]);
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(landed));
}

unsigned char* collective_shared_access(Machine& machine, Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction, const void* value, bool* whole) {
  const unsigned position = find(machine, address, bytes);
  if (position == no_position) {
    report_out_of_bounds(machine, address, bytes, instruction);
    return nullptr;
  }
  check_alignment(machine, address, alignment, instruction);
  if (machine.launch.check) {
    const Agent warp = agent_of(machine.self->warp, whole_warp);
    if (access == Access::read) {
      const bool known = shadow_read(machine, position, bytes, warp, whole != nullptr);
      if (whole != nullptr) *whole = known;
    } else {
      shadow_write(machine, position, bytes, warp, value);
    }
  }
  return bytes_at(machine, position);
}

std::string describe_shared(Machine& machine, unsigned address) {
  const std::uint32_t whole = cluster_address(machine, address);
  return describe_offset(machine, whole & ((1u << rank_shift) - 1)) + of_rank(machine, rank_of_address(whole));
}

std::uint32_t cluster_address(Machine& machine, std::uint32_t address) {
  if ((address & names_block) != 0) return address;
  return address | names_block | (machine.self != nullptr ? machine.self->rank : 0) << rank_shift;
}

}  // namespace autosched::emulator

AUTOSCHED_PART(SharedMemory);
