// The heap of device code: malloc and free (CUDA C++ Programming Guide, dynamic global memory allocation).
#include <algorithm>
#include <map>

#include "memory/global/shadow.hpp"

namespace autosched::emulator {
namespace {

// What is freed is not given out again while the launch lasts, so that a use of it is seen: there is more room for
// allocations than may be there at a time, which is the default of cudaLimitMallocHeapSize.
constexpr std::size_t room = std::size_t{64} << 20, most_live = std::size_t{8} << 20;
constexpr std::size_t alignment = 16, gap = 16;

struct Allocation {
  std::size_t bytes;
  SiteIndex made, freed;  // freed: 0 while it is not
};

char* heap = nullptr;
std::map<std::size_t, Allocation> allocations;  // by offset in the heap
std::size_t used = 0, live = 0;

std::string describe_allocation(const Allocation& a) {
  return std::to_string(a.bytes) + " bytes that malloc returned at " + place(a.made) +
         (a.freed != 0 ? " and that were freed at " + place(a.freed) : "");
}

}  // namespace

BufferSpec heap_spec() { return {BufferSpec::Role::heap, "heap", room, 8, false}; }
void place_heap(void* address) { heap = static_cast<char*>(address); }

std::uint64_t heap_malloc(std::uint64_t bytes) {
  if (bytes > most_live) return 0;
  const auto size = static_cast<std::size_t>(bytes);
  const std::size_t taken = (size + alignment - 1) / alignment * alignment + gap;
  if (live + size > most_live || used + taken > room) return 0;
  const std::size_t offset = used;
  used += taken;
  live += size;
  allocations[offset] = {size, self->site, 0};
  return reinterpret_cast<std::uint64_t>(heap + offset);
}

void heap_free(std::uint64_t address) {
  if (address == 0) return;
  const auto offset = static_cast<std::size_t>(address - reinterpret_cast<std::uint64_t>(heap));
  const auto found = allocations.find(offset);
  if (found == allocations.end()) {
    FINDING(heap_misuse, self->site, "%s frees %#llx, which malloc did not return", describe_self().c_str(),
            static_cast<unsigned long long>(address));
    return;
  }
  Allocation& a = found->second;
  if (a.freed != 0) {
    FINDING(heap_misuse, self->site, "%s frees %s", describe_self().c_str(), describe_allocation(a).c_str());
    return;
  }
  a.freed = self->site;
  live -= a.bytes;
}

namespace global_shadow {

bool check_heap(const void* address, int bytes, const char* instruction) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - heap);
  auto after = allocations.upper_bound(offset);
  if (after == allocations.begin()) {
    FINDING(out_of_bounds_global, self->site, "%s: %s of %d bytes in the heap, of which nothing is allotted",
            describe_self().c_str(), instruction, bytes);
    return false;
  }
  const auto& [begin, a] = *--after;
  if (offset + static_cast<std::size_t>(bytes) > begin + a.bytes) {
    FINDING(out_of_bounds_global, self->site, "%s: %s of %d bytes at byte %zu of %s", describe_self().c_str(), instruction,
            bytes, offset - begin, describe_allocation(a).c_str());
    return false;
  }
  if (a.freed == 0) return true;
  FINDING(heap_misuse, self->site, "%s: %s of %d bytes at byte %zu of %s", describe_self().c_str(), instruction, bytes,
          offset - begin, describe_allocation(a).c_str());
  return false;
}

}  // namespace global_shadow
}  // namespace autosched::emulator
