// The launch's buffers, and who wrote and read each of their elements. For global_*.cpp alone.
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
// Whether nothing that a program reads tells two blocks apart (isa/program.cpp).
bool are_replicas(Machine& machine, unsigned block, unsigned other);
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
constexpr unsigned lane_shift = 26, number_bits = 25;
constexpr Mark numbers = (1u << number_bits) - 1;
// Of the mark of a word of several cells: that of the first, and each next cell has the next lane.
constexpr Mark spread = 1u << number_bits;
// Of the write of a word whose cells have marks of their own, which are kept apart (marks.cpp).
constexpr Mark apart = spread | (warp_size - 1) << lane_shift;
Mark mark_of(Machine& machine, const Stamp& stamp);
// Who has used the bytes of the launch's buffers, but for what each buffer keeps.
struct GlobalUses {
  static constexpr std::size_t fewest = std::size_t{1} << 16;  // stamps between two clearances (stamps.cpp)
  std::vector<Stamp> stamps = std::vector<Stamp>(1);  // of lane 0; number 0 is none
  static constexpr unsigned num_latest = 1u << 12;
  Mark latest[num_latest] = {};  // by site and warp: where one probably is
  std::size_t full = fewest;  // when to look for those that no mark names any more

  static constexpr unsigned most_cells = 4;  // of a word (marks.cpp)
  struct Parts {
    Mark marks[3][most_cells];
  };
  std::vector<Parts> kept_apart;
  std::vector<Mark> unused;  // places in it

  // Where what stands in a cell was loaded: of cells that copies were stored in last, as many as there is room for.
  struct CopyOf {
    const char* cell;
    std::uint64_t from;
    Epoch epoch;  // of the store, by whom and where
    Who who;
    SiteIndex site;
  };
  CopyOf* copies = nullptr;  // by cell
  std::unordered_map<const char*, Stamp> under_atomics;  // by the first byte of the cell
  bool any_release = false;  // whether anything has been published between blocks
};
inline Stamp stamp_of(Machine& machine, Mark mark) {
  Stamp stamp = machine.global_uses.stamps[mark & numbers];
  stamp.who = static_cast<Who>(stamp.who + (mark >> lane_shift));
  return stamp;
}
inline bool is_apart(Mark write) { return (write & apart) == apart; }
inline Mark mark_of_part(Mark word, unsigned part) { return (word & spread) == 0 ? word : (word & ~spread) + (part << lane_shift); }

constexpr std::size_t page_bytes = 4096;
constexpr unsigned char page_is_dirty = 1, page_was_loaded = 2, page_has_garbage = 4;  // of a program's memory
constexpr unsigned char page_has_content = 1, page_was_read = 2;

struct Buffer {
  BufferSpec spec;
  char* begin;
  // Of what the kernel may write, in cells: one an element, or several where the kernel stores parts of elements. The last
  // write (0); two readers since that stand for all (1, 2): those by plain loads stay under atomics. A mark is of a word: of
  // one cell, or of several that have less than 4 bytes together. Only what is touched takes memory.
  Mark* marks[3];
  unsigned cell_bytes;
  unsigned cells_of_word;
  unsigned char* touched;  // of a sparse launch: one a page, whether it has its content, and readers of what is written
  std::vector<unsigned char> pages;  // of a program's memory, one a page: whether it was written, read, ...
  SiteIndex unset_read = 0;  // of a variable that nothing has set: where it is read
  std::size_t elements() const { return spec.bytes / spec.element_bytes; }
  std::size_t words() const { return spec.bytes / (std::size_t{cell_bytes} * cells_of_word) + 1; }
  bool writable() const { return spec.role != BufferSpec::Role::input; }
  // False where nobody has read anything on the page of a cell: there its readers are not even looked at, as that takes a
  // page for each of them.
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
      marks[which][cell] = mark;  // a store alone would take memory
    }
  }
  // How many cells from this one on, which are all of an access that ends before ``end``, can be taken for one, as they
  // have the same marks: those of a word, or one.
  unsigned alike(std::size_t cell, std::size_t end) const {
    if (cells_of_word == 1 || cell % cells_of_word != 0 || cell + cells_of_word > end) return 1;
    const std::size_t word = cell / cells_of_word;
    return (any_mark(word) & spread) == 0 ? cells_of_word : 1;
  }
  // The same of cells that nobody has written or read; 0 where somebody has.
  unsigned untouched(std::size_t cell, std::size_t end) const {
    const std::size_t word = cell / cells_of_word;
    return any_mark(word) != 0 ? 0 : alike(cell, end);
  }
  // Of so many that are alike.
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
  // Whether what a cell stands for held a value when the launch began.
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

// Before a write or a read: of what pages this is.
inline void note_pages(Buffer& b, const void* address, int bytes, unsigned char what) {
  if (b.pages.empty()) return;
  const auto first = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  for (std::size_t p = first / page_bytes; p <= (first + static_cast<std::size_t>(bytes) - 1) / page_bytes; ++p) b.pages[p] |= what;
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
// Calls ``visit`` with the marks of all buffers, of words and of cells apart, and their number.
void for_marks(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit);
void for_marks_apart(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit);

bool any_variable(Machine& machine);  // whether the launch has an array that its program may write in any way
Buffer* buffer_at(Machine& machine, const void* address, int bytes);  // nullptr: none
// Not a variable, nor the heap: one whose pages are made when they are touched, in a sparse launch.
bool is_array(const Buffer& b);
void touch(Machine& machine, Buffer& b, const void* address, int bytes);
// Whether an access comes too early in a launch that may overlap those before it: a finding (dependence.cpp).
void check_dependence(Machine& machine, const Buffer& b, const void* address, int bytes, bool writes, const char* instruction);
// The buffer of an access, or nullptr (and a finding) where it is in none.
Buffer* check_access(Machine& machine, const void* address, int bytes, const char* instruction, bool writes = false);
// Garbage in what holds no value of the pages that are read. Once for each page.
void fill_unknown(Machine& machine, Buffer& b, const void* address, int bytes);
// A read of a variable that nothing has set, which is a finding, at the latest once the launch is over.
void note_unset_read(Machine& machine, Buffer& b);
// Whether an access of the heap is one of what is allotted; a finding where not.
bool check_heap(Machine& machine, const void* address, int bytes, const char* instruction);
std::string element(const Buffer& b, const void* address);
std::string element(const Buffer& b, std::size_t cell);

// Happens-before between blocks: by a fence and an atomic on both sides.
bool acquired(Machine& machine, const Stamp& before);  // from the other block that did it
inline bool ordered(Machine& machine, const Stamp& before) {
  if (before.epoch < machine.launch.began) return true;
  if (of_running(machine, before.epoch)) {
    if (machine.clocks.ordered(before.who, before.epoch, machine.self->who)) return true;
    if (rank_of(machine, before.who) == machine.self->rank) return false;
  }
  return acquired(machine, before);
}
// Whether the other block that did it has told this one so by strong accesses, with or without fences.
bool glimpsed(Machine& machine, const Stamp& before);
void glimpse(Machine& machine, const void* address);       // what a strong write there has told
void show(Machine& machine, const void* address);          // what this thread knows, by a strong write
void forget_glimpses(Machine& machine);                  // of an earlier launch
void acquire_from(Machine& machine, const void* address);  // takes over what others have published there
void synchronize(Machine& machine, void* address);         // and publishes
void forget_releases(Machine& machine, const void* address);

}  // namespace autosched::emulator::global_shadow

namespace autosched::emulator {

// The buffers of the launch.
struct Buffers {
  // Sparse launches: what a page holds is made when it is touched first.
  struct Page {
    global_shadow::Buffer* buffer;
    std::size_t index;
  };
  std::vector<global_shadow::Buffer> list;
  std::vector<Page> touched_pages;
  global_shadow::Buffer* last = nullptr;  // the one that was found last
};

}  // namespace autosched::emulator
