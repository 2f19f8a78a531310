// The heap of device code: malloc and free (CUDA C++ Programming Guide, dynamic global memory allocation). It lasts as long
// as the region in which it lies with its books: in the memory of a program that is longer than a launch.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "memory/garbage.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/heap.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator {
namespace {

constexpr std::size_t alignment = 16, gap = 16, page = 4096;
// What is freed is not given out again, so that a use of it is seen: a launch has more room than may be there at a time.
constexpr std::size_t least_room = std::size_t{64} << 20;

struct Allocation {
  std::uint64_t offset, bytes;
  std::uint32_t made, freed;  // places, in the texts; freed: 0 while it is not
  std::uint32_t made_in, freed_in;  // launches
};
// At the begin of the region, which is zero at first. Quarters of it follow: the data, which of their bytes hold a value,
// the allocations by their offsets; and the texts.
struct Books {
  std::uint64_t used, live, count, texts;
  std::uint64_t first;  // of the allocations that are not freed
  std::uint64_t launches, resets;
};

Books* books = nullptr;
char* data = nullptr;
unsigned char* defined = nullptr;
Allocation* allocations = nullptr;
char* texts = nullptr;
std::size_t quarter = 0, limit = std::size_t{8} << 20;  // of cudaLimitMallocHeapSize
std::size_t window = 0, window_end = 0;                 // of the data: what this launch may use
bool lasts = false;                                     // in the memory of a program

void open(char* region, std::size_t bytes) {
  quarter = bytes / 4 / page * page;
  books = reinterpret_cast<Books*>(region);
  texts = region + sizeof(Books);
  data = region + quarter;
  defined = reinterpret_cast<unsigned char*>(data + quarter);
  allocations = reinterpret_cast<Allocation*>(data + 2 * quarter);
  if (books->texts == 0) books->texts = 1;
  ++books->launches;
}

std::uint32_t kept_text(const std::string& text) {
  const std::size_t at = books->texts;
  if (at + text.size() + 1 > quarter - sizeof(Books)) return 1;
  std::memcpy(texts + at, text.c_str(), text.size() + 1);
  books->texts += text.size() + 1;
  return static_cast<std::uint32_t>(at);
}
std::uint32_t kept_place(SiteIndex site) {
  static std::map<SiteIndex, std::uint32_t> kept;
  std::uint32_t& at = kept[site];
  if (at == 0) at = kept_text("at " + place(site));
  return at;
}

void mark_freed(Allocation& a, std::uint32_t where) {
  a.freed = where;
  a.freed_in = static_cast<std::uint32_t>(books->launches);
  books->live -= a.bytes;
}

std::string describe_allocation(const Allocation& a) {
  const auto when = [](std::uint32_t launch) {
    return launch == books->launches ? std::string{} : " in an earlier launch";
  };
  std::string text = std::to_string(a.bytes) + " bytes that malloc returned " + (texts + a.made) + when(a.made_in);
  if (a.freed != 0) text += std::string(" and that were freed ") + (texts + a.freed) + when(a.freed_in);
  return text;
}

// The last allocation that begins at `offset` or before; nullptr: none.
Allocation* allocation_at(std::size_t offset) {
  Allocation* const end = allocations + books->count;
  Allocation* const after =
      std::upper_bound(allocations, end, offset, [](std::size_t at, const Allocation& a) { return at < a.offset; });
  return after == allocations ? nullptr : after - 1;
}

}  // namespace

void open_heap(void* region, std::size_t bytes, std::size_t most, std::uint64_t resets, bool copied) {
  open(static_cast<char*>(region), bytes);
  lasts = true;
  limit = most;
  if (books->resets != resets) {
    books->resets = resets;
    const std::uint32_t why = kept_text("by cudaDeviceReset");
    for (std::size_t k = books->first; k != books->count; ++k) {
      if (allocations[k].freed == 0) mark_freed(allocations[k], why);
    }
  }
  const auto begin_of_first = [] {
    return books->first == books->count ? books->used / page * page : allocations[books->first].offset / page * page;
  };
  const std::size_t before = begin_of_first();
  while (books->first != books->count && allocations[books->first].freed != 0) ++books->first;
  window = begin_of_first();
  if (window > before && !copied) madvise(data + before, window - before, MADV_REMOVE);  // no matter if it fails
}

bool heap_is_used() { return lasts && books->count != 0; }

BufferSpec heap_spec() {
  if (books == nullptr) open(static_cast<char*>(reserve_zeroed(5 * least_room)), 5 * least_room);
  window_end = std::min(books->used + std::max(least_room, 2 * limit), quarter);
  BufferSpec spec{BufferSpec::Role::heap, "heap", window_end - window, 8, false};
  spec.address = data + window;
  spec.defined = defined + window;
  return spec;
}

std::size_t heap_used_bytes() { return books->used - std::min<std::size_t>(window, books->used); }

std::uint64_t heap_malloc(std::uint64_t bytes) {
  if (bytes > limit) return 0;
  const auto size = static_cast<std::size_t>(bytes);
  const std::size_t taken = (size + alignment - 1) / alignment * alignment + gap;
  if (books->live + size > limit || books->used + taken > window_end) return 0;
  const std::size_t offset = books->used;
  if (garbage != 0) fill_garbage(data + offset, size);
  books->used += taken;
  books->live += size;
  allocations[books->count++] = {offset, size, kept_place(self->site), 0, static_cast<std::uint32_t>(books->launches), 0};
  return reinterpret_cast<std::uint64_t>(data + offset);
}

void heap_free(std::uint64_t address) {
  if (address == 0) return;
  const auto offset = static_cast<std::size_t>(address - reinterpret_cast<std::uint64_t>(data));
  Allocation* const a = allocation_at(offset);
  if (a == nullptr || a->offset != offset) {
    FINDING(heap_misuse, self->site, "%s frees %#llx, which malloc did not return", describe_self().c_str(),
            static_cast<unsigned long long>(address));
  } else if (a->freed != 0) {
    FINDING(heap_misuse, self->site, "%s frees %s", describe_self().c_str(), describe_allocation(*a).c_str());
  } else {
    mark_freed(*a, kept_place(self->site));
  }
}

namespace global_shadow {

bool check_heap(const void* address, int bytes, const char* instruction) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - data);
  const Allocation* const a = allocation_at(offset);
  if (a == nullptr) {
    FINDING(out_of_bounds_global, self->site, "%s: %s of %d bytes in the heap, of which nothing is allotted",
            describe_self().c_str(), instruction, bytes);
    return false;
  }
  const std::size_t at = offset - a->offset;
  if (at + static_cast<std::size_t>(bytes) > a->bytes) {
    FINDING(out_of_bounds_global, self->site, "%s: %s of %d bytes at byte %zu of %s", describe_self().c_str(), instruction,
            bytes, at, describe_allocation(*a).c_str());
    return false;
  }
  if (a->freed == 0) return true;
  FINDING(heap_misuse, self->site, "%s: %s of %d bytes at byte %zu of %s", describe_self().c_str(), instruction, bytes, at,
          describe_allocation(*a).c_str());
  return false;
}

}  // namespace global_shadow
}  // namespace autosched::emulator
