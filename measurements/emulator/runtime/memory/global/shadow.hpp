// The launch's buffers, and who wrote and read each of their elements. For global_*.cpp alone.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "machine.hpp"

namespace autosched::emulator {
// Whether what is loaded comes to nothing in any case (isa/dropped.cpp).
bool goes_nowhere(SiteIndex load);
}  // namespace autosched::emulator

namespace autosched::emulator::global_shadow {

struct Stamp {
  Epoch epoch = 0;       // 0: none
  std::uint32_t fences = 0;  // of that thread before
  Who who = 0;
  SiteIndex site = 0;
  bool atomic = false;
  bool narrow = false;  // an atomic of the scope of its block
  bool constant = false;  // a read by ld.global.nc, which nothing of the launch may write
};
// A stamp in 4 bytes: the lane, and which stamp of its warp (stamps.cpp). 0: none.
using Mark = std::uint32_t;
constexpr Mark was_read = 1u << 31;  // of a write: whether somebody has read it
Mark mark_of(const Stamp& stamp);
Stamp stamp_of(Mark mark);

struct Buffer {
  BufferSpec spec;
  char* begin;
  // Of what the kernel may write, in cells: one an element, or several where the kernel stores parts of elements. The last
  // write; two readers since that stand for all: those by plain loads stay under atomics. Only what is touched takes memory.
  Mark* writes;
  Mark* reads[2];
  unsigned cell_bytes;
  unsigned char* touched;  // of a sparse launch: one a page, whether it has its content
  SiteIndex unset_read = 0;  // of a variable that nothing has set: where it is read
  std::size_t elements() const { return spec.bytes / spec.element_bytes; }
  std::size_t cells() const { return spec.bytes / cell_bytes + 1; }
  bool writable() const { return spec.role != BufferSpec::Role::input; }
  bool written(std::size_t cell) const { return (writes[cell] & ~was_read) != 0; }
  Stamp write(std::size_t cell) const { return stamp_of(writes[cell] & ~was_read); }
  // Whether what a cell stands for held a value when the launch began.
  bool held_value(std::size_t cell) const {
    if (spec.defined == nullptr) return spec.zeroed;
    const unsigned char* first = spec.defined + cell * cell_bytes;
    return std::all_of(first, first + cell_bytes, [](unsigned char flag) { return flag != 0; });
  }
};

struct Cells {
  std::size_t begin, end;
};
inline Cells cells_of(const Buffer& b, const void* address, int bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  return {offset / b.cell_bytes, (offset + static_cast<std::size_t>(bytes) - 1) / b.cell_bytes + 1};
}
// Calls ``visit`` with the marks of all buffers, and their number.
void for_marks(const std::function<void(Mark*, std::size_t)>& visit);

// The buffer of an access, or nullptr (and a finding) where it is in none.
Buffer* check_access(const void* address, int bytes, const char* instruction);
// A read of a variable that nothing has set, which is a finding, at the latest once the launch is over.
void note_unset_read(Buffer& b);
// Whether an access of the heap is one of what is allotted; a finding where not.
bool check_heap(const void* address, int bytes, const char* instruction);
std::string element(const Buffer& b, const void* address);
std::string element(const Buffer& b, std::size_t cell);

// Happens-before between blocks: by a fence and an atomic on both sides.
bool acquired(const Stamp& before);  // from the other block that did it
inline bool ordered(const Stamp& before) {
  if (before.epoch < launch.began) return true;
  if (of_running(before.epoch)) {
    if (clocks.ordered(before.who, before.epoch, self->who)) return true;
    if (rank_of(before.who) == self->rank) return false;
  }
  return acquired(before);
}
extern bool any_release;                 // whether anything has been published
void acquire_from(const void* address);  // takes over what others have published there
void synchronize(void* address);         // and publishes
void forget_releases(const void* address);

}  // namespace autosched::emulator::global_shadow
