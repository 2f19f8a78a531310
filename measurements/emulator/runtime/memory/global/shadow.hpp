// The launch's buffers, and the writers and readers of their elements. Internal header of the files about global
// memory.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "memory/global/buffers.hpp"

namespace autosched::emulator {
// True if two blocks do the same work: the kernel reads no special register in which they differ (isa/program.cpp).
bool are_replicas(Machine& machine, unsigned block, unsigned other);
}  // namespace autosched::emulator

namespace autosched::emulator::global_shadow {

struct Stamp {
  Epoch epoch = 0;       // 0: no access
  std::uint32_t fences = 0;  // number of fences of the agent's thread before the access
  Agent agent = 0;
  SiteIndex site = 0;
  bool atomic = false;
  bool narrow = false;  // an atomic of block scope
  bool constant = false;  // a read by ld.global.nc, which requires that the launch does not write the data
};
// A 4-byte reference to a stamp: the lane, and the index of a stamp that lanes of a warp share (stamps.cpp). 0: no
// stamp.
using Mark = std::uint32_t;
constexpr Mark was_read = 1u << 31;  // flag of a write that has been read
constexpr unsigned lane_shift = 26, number_bits = 25;
constexpr Mark numbers = (1u << number_bits) - 1;
// Flag of a mark that stands for all cells of a word: consecutive lanes have accessed consecutive cells. The mark
// contains the lane that accessed the first cell.
constexpr Mark spread = 1u << number_bits;
// Flags in the write mark of a word: the cells of the word have separate marks, which are in kept_apart (marks.cpp).
constexpr Mark apart = spread | (warp_size - 1) << lane_shift;
Mark mark_of(Machine& machine, const Stamp& stamp);
// Records of accesses to all buffers. The marks in buffers refer to these records.
struct GlobalUses {
  // minimum number of stamps before a garbage collection (stamps.cpp)
  static constexpr std::size_t fewest = std::size_t{1} << 16;
  // stamps, each as if lane 0 had made the access; index 0 is unused
  std::vector<Stamp> stamps = std::vector<Stamp>(1);
  static constexpr unsigned num_latest = 1u << 12;
  Mark latest[num_latest] = {};  // by a hash of site, kind and warp: the index of the last stamp with this hash
  std::size_t full = fewest;  // number of stamps at which the next garbage collection runs

  static constexpr unsigned most_cells = 4;  // maximum number of cells per word (marks.cpp)
  struct Parts {
    Mark marks[3][most_cells];
  };
  std::vector<Parts> kept_apart;
  std::vector<Mark> unused;  // unused indices of kept_apart

  // For a cell to which a copy was stored: the location from which the value was loaded. Older entries may be
  // overwritten.
  struct CopyOf {
    const char* cell;
    std::uint64_t from;
    Epoch epoch;  // epoch, agent and site of the store
    Agent agent;
    SiteIndex site;
  };
  CopyOf* copies = nullptr;  // hash table of entries by cell
  // for each cell, by its first byte: the last plain write, if atomics have followed it
  std::unordered_map<const char*, Stamp> under_atomics;
  bool any_release = false;  // true if a block has published actions
};
inline Stamp stamp_of(Machine& machine, Mark mark) {
  Stamp stamp = machine.global_uses.stamps[mark & numbers];
  stamp.agent = static_cast<Agent>(stamp.agent + (mark >> lane_shift));
  return stamp;
}
inline bool is_apart(Mark write) { return (write & apart) == apart; }
inline Mark mark_of_part(Mark word, unsigned part) { return (word & spread) == 0 ? word : (word & ~spread) + (part << lane_shift); }

constexpr std::size_t page_bytes = 4096;
constexpr unsigned char page_is_dirty = 1, page_was_loaded = 2, page_is_poisoned = 4;  // flags of a page of a program's memory
constexpr unsigned char page_has_content = 1, page_was_read = 2;

struct Buffer {
  BufferSpec spec;
  char* begin;
  // Records of accesses to memory that the kernel may write. A cell is an element, or a part of an element if the
  // kernel stores parts. marks[0] are the last writes. marks[1] and marks[2] are two later readers, which represent all
  // readers. A write clears the readers, but an atomic keeps plain readers. There is one mark per word; a word is one
  // cell, or several small cells with at most 4 bytes in total. Marks are allocated when first accessed.
  Mark* marks[3];
  unsigned cell_bytes;
  unsigned cells_of_word;
  // flags per page in a sparse launch: whether the page has content, and whether it has recorded readers
  unsigned char* touched;
  // flags per page of a program's memory: whether the page was written, read or poisoned
  std::vector<unsigned char> pages;
  SiteIndex unset_read = 0;  // for a variable that was never set: the site that reads it
  std::size_t elements() const { return spec.bytes / spec.element_bytes; }
  std::size_t words() const { return spec.bytes / (std::size_t{cell_bytes} * cells_of_word) + 1; }
  bool writable() const { return spec.role != BufferSpec::Role::input; }
  // False if nothing on the page of a cell has been read. In this case, the marks of the cell's readers must not be
  // accessed: an access would allocate a page of marks.
  bool has_readers(std::size_t cell) const {
    return touched == nullptr || (touched[cell * cell_bytes / page_bytes] & page_was_read) != 0;
  }
  Mark any_mark(std::size_t word) const {
    return has_readers(word * cells_of_word) ? marks[0][word] | marks[1][word] | marks[2][word] : marks[0][word];
  }
  Mark mark(Machine& machine, unsigned which, std::size_t cell) const {
    if (which != 0 && !has_readers(cell)) return 0;
    if (cells_of_word == 1) return marks[which][cell];
    const std::size_t word = cell / cells_of_word;
    return is_apart(marks[0][word]) ? mark_kept_apart(machine, which, cell)
                                    : mark_of_part(marks[which][word], static_cast<unsigned>(cell % cells_of_word));
  }
  void set_mark(Machine& machine, unsigned which, std::size_t cell, Mark mark) {
    if (cells_of_word != 1) {
      set_mark_in_word(machine, which, cell, mark);
    } else if (marks[which][cell] != mark) {
      marks[which][cell] = mark;  // an unchanged mark is not stored, because a store may allocate a page
    }
  }
  // Number of consecutive cells, beginning with this cell, that have the same marks and are handled together: all cells
  // of a word, or 1. ``end``: end of the accessed cells.
  unsigned alike(std::size_t cell, std::size_t end) const {
    if (cells_of_word == 1 || cell % cells_of_word != 0 || cell + cells_of_word > end) return 1;
    const std::size_t word = cell / cells_of_word;
    return (any_mark(word) & spread) == 0 ? cells_of_word : 1;
  }
  // Like alike(), but for cells that were never accessed. Returns 0 if the cells were accessed.
  unsigned untouched(std::size_t cell, std::size_t end) const {
    const std::size_t word = cell / cells_of_word;
    return any_mark(word) != 0 ? 0 : alike(cell, end);
  }
  // Sets the marks of `count` cells, where `count` is a result of alike().
  void set_marks(Machine& machine, unsigned which, std::size_t cell, unsigned count, Mark mark) {
    if (which != 0 && touched != nullptr) {
      if (mark == 0 && !has_readers(cell)) return;
      touched[cell * cell_bytes / page_bytes] |= page_was_read;
    }
    if (count == 1) {
      set_mark(machine, which, cell, mark);
    } else if (marks[which][cell / cells_of_word] != mark) {
      marks[which][cell / cells_of_word] = mark;
    }
  }
  Mark mark_kept_apart(Machine& machine, unsigned which, std::size_t cell) const;
  void set_mark_in_word(Machine& machine, unsigned which, std::size_t cell, Mark mark);
  void forget_marks(Machine& machine);
  bool written(Machine& machine, std::size_t cell) const { return (mark(machine, 0, cell) & ~was_read) != 0; }
  Stamp write(Machine& machine, std::size_t cell) const { return stamp_of(machine, mark(machine, 0, cell) & ~was_read); }
  // True if the memory of a cell was defined when the launch began.
  bool held_value(std::size_t cell) const {
    if (!spec.unknown.empty()) return holds_values(cell * cell_bytes, (cell + 1) * cell_bytes);
    if (spec.defined == nullptr) return spec.zeroed;
    const unsigned char* first = spec.defined + cell * cell_bytes;
    return std::all_of(first, first + cell_bytes, [](unsigned char flag) { return flag != 0; });
  }
  bool holds_values(std::size_t from, std::size_t to) const {
    const auto after = std::upper_bound(spec.unknown.begin(), spec.unknown.end(), from,
                                        [](std::size_t at, const BufferSpec::Stretch& s) { return at < s.end; });
    return after == spec.unknown.end() || after->first >= to;
  }
};

// Sets a flag of the pages that an access touches. Called before the access.
inline void note_pages(Buffer& b, const void* address, int bytes, unsigned char flag) {
  if (b.pages.empty()) return;
  const auto first = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  for (std::size_t p = first / page_bytes; p <= (first + static_cast<std::size_t>(bytes) - 1) / page_bytes; ++p) b.pages[p] |= flag;
}
inline void note_dirty(Buffer& b, const void* address, int bytes) { note_pages(b, address, bytes, page_is_dirty); }

inline void put_bytes(int file, const void* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::write(file, static_cast<const char*>(bytes) + done, size - done);
    if (n <= 0) std::exit(1);
    done += static_cast<std::size_t>(n);
  }
}

struct Cells {
  std::size_t begin, end;
};
inline Cells cells_of(const Buffer& b, const void* address, int bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  return {offset / b.cell_bytes, (offset + static_cast<std::size_t>(bytes) - 1) / b.cell_bytes + 1};
}
// Calls ``visit`` with arrays of marks and their lengths, for all marks of words and of separate cells.
void for_marks(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit);
void for_marks_apart(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit);

bool any_variable(Machine& machine);  // whether any buffer of the launch is a variable of the program
Buffer* buffer_at(Machine& machine, const void* address, int bytes);  // nullptr if no buffer contains all bytes
// True for buffers that are neither variables nor the heap. In a sparse launch, their pages get their content on first
// access.
bool is_array(const Buffer& b);
void touch(Machine& machine, Buffer& b, const void* address, int bytes);
// Reports an access to memory that earlier launches may still use, if the thread has not waited for these launches
// (dependence.cpp).
void check_dependence(Machine& machine, const Buffer& b, const void* address, int bytes, bool writes, const char* instruction);
// Returns the buffer of an access. If the access is out of bounds, reports a finding and returns nullptr.
Buffer* check_access(Machine& machine, const void* address, int bytes, const char* instruction, bool writes = false);
// Poisons undefined bytes of the accessed pages, once per page.
void fill_unknown(Machine& machine, Buffer& b, const void* address, int bytes);
// Records a read of a variable that was never set, which is reported immediately or after the launch.
void note_unset_read(Machine& machine, Buffer& b);
// Returns true if an access to the heap is inside of an allocation; otherwise reports a finding.
bool check_heap(Machine& machine, const void* address, int bytes, const char* instruction);
std::string element(const Buffer& b, const void* address);
std::string element(const Buffer& b, std::size_t cell);

// Returns true if this action of another block happens before the running thread's next action. Between blocks, this
// requires a fence and an atomic operation in both threads.
bool acquired(Machine& machine, const Stamp& before);
inline bool ordered(Machine& machine, const Stamp& before) {
  if (before.epoch < machine.launch.began) return true;
  if (of_running(machine, before.epoch)) {
    if (machine.clocks.ordered(before.agent, before.epoch, machine.self->agent)) return true;
    if (rank_of(machine, before.agent) == machine.self->rank) return false;
  }
  return acquired(machine, before);
}
// True if strong accesses, with or without fences, have communicated an action of another block to this block.
bool glimpsed(Machine& machine, const Stamp& before);
// Called for a strong read: this thread then knows all events that were ordered before the last strong write to the
// address.
void glimpse(Machine& machine, const void* address);
// called for a strong write: communicates this thread's earlier events
void show(Machine& machine, const void* address);
// called when a launch starts: forgets what earlier launches have communicated
void forget_glimpses(Machine& machine);
// acquires actions that other blocks have published at the address
void acquire_from(Machine& machine, const void* address);
void synchronize(Machine& machine, void* address);         // acquires, and publishes this thread's actions
void forget_releases(Machine& machine, const void* address);

}  // namespace autosched::emulator::global_shadow

namespace autosched::emulator {

// The buffers of the launch.
struct Buffers {
  // In a sparse launch: a page of a buffer, which got its content when it was first accessed.
  struct Page {
    global_shadow::Buffer* buffer;
    std::size_t index;
  };
  std::vector<global_shadow::Buffer> list;
  std::vector<Page> touched_pages;
  global_shadow::Buffer* last = nullptr;  // result of the last look-up of a buffer, as a cache
};

}  // namespace autosched::emulator
