// The heap of device code: malloc and free (CUDA C++ Programming Guide, dynamic global memory allocation). The heap and
// its bookkeeping are in one region. In an executable, this region is preserved between launches.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "machine/part.hpp"
#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/heap.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator {

// The state of the heap: pointers into the region.
struct Heap {
  struct Allocation {
    std::uint64_t offset, bytes;
    std::uint32_t allocated, freed;  // offsets of texts about where it was allocated and freed; `freed`: 0 if not freed
    std::uint32_t allocated_in, freed_in;  // indices of the launches that allocated and freed it
  };
  // Header of the region, which is initially zero. The region has four quarters: (1) this header and the texts, (2) the
  // data, (3) the flags of defined bytes, and (4) the allocations by ascending offset.
  struct Books {
    std::uint64_t used, live, count, texts;
    std::uint64_t first;  // index of the first allocation that is not freed
    std::uint64_t launches, resets;
  };
  Books* books = nullptr;
  char* data = nullptr;
  unsigned char* defined = nullptr;
  Allocation* allocations = nullptr;
  char* texts = nullptr;
  std::size_t quarter = 0, limit = std::size_t{8} << 20;  // cudaLimitMallocHeapSize
  std::size_t window = 0, window_end = 0;                 // range of the data that this launch may use
  bool outlives_launch = false;                                     // the region is in a program's memory
  std::map<SiteIndex, std::uint32_t> kept_positions;  // offsets of the texts of sites
};

namespace {
using Allocation = Heap::Allocation;
using Books = Heap::Books;

constexpr std::size_t alignment = 16, gap = 16, page = 4096;
// Freed memory is not reused, so that uses after free are detected. A launch therefore needs more memory than it has
// allocated at any one time.
constexpr std::size_t least_room = std::size_t{64} << 20;

void open(Machine& machine, char* region, std::size_t bytes) {
  machine.heap.quarter = bytes / 4 / page * page;
  machine.heap.books = reinterpret_cast<Books*>(region);
  machine.heap.texts = region + sizeof(Books);
  machine.heap.data = region + machine.heap.quarter;
  machine.heap.defined = reinterpret_cast<unsigned char*>(machine.heap.data + machine.heap.quarter);
  machine.heap.allocations = reinterpret_cast<Allocation*>(machine.heap.data + 2 * machine.heap.quarter);
  if (machine.heap.books->texts == 0) machine.heap.books->texts = 1;
  ++machine.heap.books->launches;
}

std::uint32_t kept_text(Machine& machine, const std::string& text) {
  const std::size_t at = machine.heap.books->texts;
  if (at + text.size() + 1 > machine.heap.quarter - sizeof(Books)) return 1;
  std::memcpy(machine.heap.texts + at, text.c_str(), text.size() + 1);
  machine.heap.books->texts += text.size() + 1;
  return static_cast<std::uint32_t>(at);
}
std::uint32_t kept_place(Machine& machine, SiteIndex site) {
  std::uint32_t& at = machine.heap.kept_positions[site];
  if (at == 0) at = kept_text(machine, "at " + describe_site(machine.report, site));
  return at;
}

void mark_freed(Machine& machine, Allocation& a, std::uint32_t where) {
  a.freed = where;
  a.freed_in = static_cast<std::uint32_t>(machine.heap.books->launches);
  machine.heap.books->live -= a.bytes;
}

std::string describe_allocation(Machine& machine, const Allocation& a) {
  const auto when = [&machine](std::uint32_t launch) {
    return launch == machine.heap.books->launches ? std::string{} : " in an earlier launch";
  };
  auto text = std::to_string(a.bytes) + " bytes that malloc returned " + (machine.heap.texts + a.allocated) + when(a.allocated_in);
  if (a.freed != 0) text += std::string(" and that were freed ") + (machine.heap.texts + a.freed) + when(a.freed_in);
  return text;
}

// The last allocation that begins at or before `offset`, or nullptr.
Allocation* allocation_at(Machine& machine, std::size_t offset) {
  Allocation* const end = machine.heap.allocations + machine.heap.books->count;
  Allocation* const after =
      std::upper_bound(machine.heap.allocations, end, offset, [](std::size_t at, const Allocation& a) { return at < a.offset; });
  return after == machine.heap.allocations ? nullptr : after - 1;
}

}  // namespace

void open_heap(Machine& machine, void* region, std::size_t bytes, std::size_t most, std::uint64_t resets, bool copied) {
  open(machine, static_cast<char*>(region), bytes);
  machine.heap.outlives_launch = true;
  machine.heap.limit = most;
  if (machine.heap.books->resets != resets) {
    machine.heap.books->resets = resets;
    const std::uint32_t why = kept_text(machine, "by cudaDeviceReset");
    for (std::size_t k = machine.heap.books->first; k != machine.heap.books->count; ++k) {
      if (machine.heap.allocations[k].freed == 0) mark_freed(machine, machine.heap.allocations[k], why);
    }
  }
  const auto begin_of_first = [&machine] {
    return machine.heap.books->first == machine.heap.books->count
               ? machine.heap.books->used / page * page
               : machine.heap.allocations[machine.heap.books->first].offset / page * page;
  };
  const std::size_t before = begin_of_first();
  while (machine.heap.books->first != machine.heap.books->count &&
         machine.heap.allocations[machine.heap.books->first].freed != 0)
    ++machine.heap.books->first;
  machine.heap.window = begin_of_first();
  if (machine.heap.window > before && !copied)
    // releases memory; a failure does not matter
    madvise(machine.heap.data + before, machine.heap.window - before, MADV_REMOVE);
}

bool heap_is_used(Machine& machine) { return machine.heap.outlives_launch && machine.heap.books->count != 0; }

BufferSpec heap_spec(Machine& machine) {
  if (machine.heap.books == nullptr) open(machine, static_cast<char*>(reserve_zeroed(machine, 5 * least_room)), 5 * least_room);
  machine.heap.window_end = std::min(machine.heap.books->used + std::max(least_room, 2 * machine.heap.limit), machine.heap.quarter);
  BufferSpec spec{BufferSpec::Role::heap, "heap", machine.heap.window_end - machine.heap.window, 8, false};
  spec.address = machine.heap.data + machine.heap.window;
  spec.defined = machine.heap.defined + machine.heap.window;
  return spec;
}

std::size_t heap_used_bytes(Machine& machine) {
  return machine.heap.books->used - std::min<std::size_t>(machine.heap.window, machine.heap.books->used);
}

std::uint64_t heap_malloc(Machine& machine, std::uint64_t bytes) {
  if (bytes > machine.heap.limit) return 0;
  const auto size = static_cast<std::size_t>(bytes);
  const std::size_t taken = (size + alignment - 1) / alignment * alignment + gap;
  if (machine.heap.books->live + size > machine.heap.limit || machine.heap.books->used + taken > machine.heap.window_end) return 0;
  const std::size_t offset = machine.heap.books->used;
  if (machine.poison != 0) fill_poison(machine, machine.heap.data + offset, size);
  machine.heap.books->used += taken;
  machine.heap.books->live += size;
  machine.heap.allocations[machine.heap.books->count++] = {
      offset, size, kept_place(machine, machine.self->site), 0, static_cast<std::uint32_t>(machine.heap.books->launches), 0};
  return reinterpret_cast<std::uint64_t>(machine.heap.data + offset);
}

void heap_free(Machine& machine, std::uint64_t address) {
  if (address == 0) return;
  const auto offset = static_cast<std::size_t>(address - reinterpret_cast<std::uint64_t>(machine.heap.data));
  Allocation* const a = allocation_at(machine, offset);
  if (a == nullptr || a->offset != offset) {
    FINDING(machine.report, heap_misuse, machine.self->site, "%s frees %#llx, which malloc has not returned",
            describe_self(machine).c_str(), static_cast<unsigned long long>(address));
  } else if (a->freed != 0) {
    FINDING(machine.report, heap_misuse, machine.self->site, "%s frees %s", describe_self(machine).c_str(),
            describe_allocation(machine, *a).c_str());
  } else {
    mark_freed(machine, *a, kept_place(machine, machine.self->site));
  }
}

namespace global_shadow {

bool check_heap(Machine& machine, const void* address, int bytes, const char* instruction) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - machine.heap.data);
  const Allocation* const a = allocation_at(machine, offset);
  if (a == nullptr) {
    FINDING(machine.report, out_of_bounds_global, machine.self->site,
            "%s: %s of %d bytes in the heap, outside of every allocation", describe_self(machine).c_str(), instruction, bytes);
    return false;
  }
  const std::size_t at = offset - a->offset;
  if (at + static_cast<std::size_t>(bytes) > a->bytes) {
    FINDING(machine.report, out_of_bounds_global, machine.self->site, "%s: %s of %d bytes at byte %zu of %s",
            describe_self(machine).c_str(), instruction, bytes, at, describe_allocation(machine, *a).c_str());
    return false;
  }
  if (a->freed == 0) return true;
  FINDING(machine.report, heap_misuse, machine.self->site, "%s: %s of %d bytes at byte %zu of %s",
          describe_self(machine).c_str(), instruction, bytes, at, describe_allocation(machine, *a).c_str());
  return false;
}

}  // namespace global_shadow
}  // namespace autosched::emulator

AUTOSCHED_PART(Heap);
