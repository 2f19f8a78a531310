// The launch's buffers, and who wrote and read each of their elements. For global_*.cpp alone.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "machine.hpp"

namespace autosched::emulator::global_shadow {

struct Stamp {
  Epoch epoch;           // 0: none
  std::uint32_t fences;  // of that thread before
  Who who;
  SiteIndex site;
  bool atomic;
  bool narrow;  // an atomic of the scope of its block
  bool constant = false;  // a read by ld.global.nc, which nothing of the launch may write
};
struct Cell {
  Stamp write;
  Stamp reads[2];  // two readers since that stand for all; those by plain loads stay under atomics
  bool write_was_read;
};

struct Buffer {
  BufferSpec spec;
  char* begin;
  Cell* cells;  // of outputs and workspaces: one an element, or several where the kernel stores parts of elements
  unsigned cell_bytes;
  unsigned char* touched;  // of a sparse launch: one a page, whether it has its content
  SiteIndex unset_read = 0;  // of a variable that nothing has set: where it is read
  std::vector<unsigned char> defined = {};  // of each byte, whether it holds a value; empty: all do, or none
  std::size_t elements() const { return spec.bytes / spec.element_bytes; }
  bool writable() const { return spec.role != BufferSpec::Role::input; }
  // Whether what a cell stands for held a value when the launch began.
  bool held_value(const Cell& cell) const {
    if (defined.empty()) return spec.zeroed;
    const unsigned char* first = defined.data() + static_cast<std::size_t>(&cell - cells) * cell_bytes;
    return std::all_of(first, first + cell_bytes, [](unsigned char flag) { return flag != 0; });
  }
};

struct Cells {
  Cell* begin;
  Cell* end;
};
inline Cells cells_of(const Buffer& b, const void* address, int bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  const std::size_t first = offset / b.cell_bytes;
  const std::size_t last = (offset + static_cast<std::size_t>(bytes) - 1) / b.cell_bytes;
  return {b.cells + first, b.cells + last + 1};
}

// The buffer of an access, or nullptr (and a finding) where it is in none.
Buffer* check_access(const void* address, int bytes, const char* instruction);
// A read of a variable that nothing has set, which is a finding, at the latest once the launch is over.
void note_unset_read(Buffer& b);
// Whether an access of the heap is one of what is allotted; a finding where not.
bool check_heap(const void* address, int bytes, const char* instruction);
std::string element(const Buffer& b, const void* address);
std::string element(const Buffer& b, const Cell& cell);

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
