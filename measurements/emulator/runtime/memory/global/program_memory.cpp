// How a launch has used a program's memory: the bytes that it has written and read, and the bytes that are undefined.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/heap.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator {

using namespace global_shadow;

namespace {

// maximum number of reported ranges per buffer; later ranges are not checked
constexpr std::size_t most_stretches = 4096;

// Calls ``visit`` for each maximal range of pages that have the flag ``kind`` (written or read), with its byte offsets.
template <class Visit>
void for_pages(Machine& machine, unsigned char kind, Visit visit) {
  for (const Buffer& b : machine.buffers.list) {
    for (std::size_t p = 0; p < b.pages.size(); ++p) {
      if ((b.pages[p] & kind) == 0) continue;
      std::size_t end = p;
      while (end < b.pages.size() && (b.pages[end] & kind) != 0) ++end;
      visit(b, p * page_bytes, std::min(end * page_bytes, b.spec.bytes));
      p = end;
    }
  }
}

std::uint64_t address_in(const Buffer& b, std::size_t at) { return reinterpret_cast<std::uint64_t>(b.begin) + at; }

// How a launch has accessed a cell: the low bits of Use in measurements/emulator/host_order.py. 0: not at all.
class CellUse {
 public:
  explicit CellUse(Machine& machine) : machine_(machine) {}
  unsigned operator()(const Buffer& b, std::size_t cell) {
    const Mark marks[] = {b.mark(machine_, 0, cell) & ~was_read, b.mark(machine_, 1, cell), b.mark(machine_, 2, cell)};
    if ((marks[0] | marks[1] | marks[2]) == 0) return 0;
    unsigned use = marks[0] != 0 ? write : read;
    for (unsigned k = 0; k < 3; ++k) {
      if (marks[k] != 0 && !is_strong(k, marks[k])) return use;
    }
    return use | strong;
  }

 private:
  static constexpr unsigned read = 1, write = 2, strong = 4;
  bool is_strong(unsigned which, Mark mark) {
    const Mark number = mark & numbers;
    if (number != last_[which]) is_strong_[which] = stamp_of(machine_, last_[which] = number).atomic;
    return is_strong_[which];
  }
  Machine& machine_;
  Mark last_[3] = {};
  bool is_strong_[3] = {};
};

}  // namespace

void keep_heap(Machine& machine) {
  for (const Buffer& b : machine.buffers.list) {
    if (b.spec.role != BufferSpec::Role::heap) continue;
    const std::size_t used = std::min(heap_used_bytes(machine), b.spec.bytes);
    for (std::size_t cell = 0; cell * b.cell_bytes < used; ++cell) {
      if (b.written(machine, cell)) std::memset(b.spec.defined + cell * b.cell_bytes, 1, b.cell_bytes);
    }
  }
}

void flag_used_bytes(Machine& machine, std::size_t buffer, unsigned char* flags) {
  const Buffer& b = machine.buffers.list[buffer];
  CellUse use_of(machine);
  for (std::size_t at = 0; at < b.spec.bytes; at += b.cell_bytes) {
    const bool written = b.written(machine, at / b.cell_bytes);
    const unsigned char of_cell = static_cast<unsigned char>((written ? 3 : 0) | use_of(b, at / b.cell_bytes) << 2);
    const std::size_t end = std::min(at + b.cell_bytes, b.spec.bytes);
    for (std::size_t i = at; i < end; ++i) flags[i] = static_cast<unsigned char>((b.spec.defined[i] != 0 ? 1 : 0) | of_cell);
  }
}

void keep_writes(Machine& machine) {
  if (machine.program_memory.file < 0) return;
  for_pages(machine, page_is_dirty, [&](const Buffer& b, std::size_t first, std::size_t end) {
    while (first < end) {
      const ssize_t n = pwrite(machine.program_memory.file, b.begin + first, end - first,
                               static_cast<off_t>(address_in(b, first) - machine.program_memory.begin));
      if (n <= 0) std::exit(1);
      first += static_cast<std::size_t>(n);
    }
  });
}

void list_writes(Machine& machine, int file) {
  for_pages(machine, page_is_dirty, [&](const Buffer& b, std::size_t first, std::size_t end) {
    for (std::size_t at = first; at < end;) {
      std::size_t last = at;
      while (last < end && b.written(machine, last / b.cell_bytes)) last = std::min(end, (last / b.cell_bytes + 1) * b.cell_bytes);
      if (last > at) {
        const std::uint64_t head[] = {address_in(b, at), last - at};
        put_bytes(file, head, sizeof head);
        put_bytes(file, b.begin + at, last - at);
      }
      at = last == at ? std::min(end, (at / b.cell_bytes + 1) * b.cell_bytes) : last;
    }
  });
}

void report_still_unknown(Machine& machine) {
  for (const Buffer& b : machine.buffers.list) {
    std::size_t reported = 0, first = 0, end = 0;  // the current range, which may be extended
    const auto flush = [&] {
      if (end > first && ++reported <= most_stretches) report_unknown(machine.report, address_in(b, first), end - first);
    };
    const auto add = [&](std::size_t from, std::size_t to) {
      if (from != end || end == first) flush(), first = from;
      end = to;
    };
    for (const BufferSpec::Stretch& s : b.spec.unknown) {
      for (std::size_t at = s.first; at < s.end;) {
        const std::size_t page_end = std::min((at / page_bytes + 1) * page_bytes, s.end);
        if (b.pages.empty() || (b.pages[at / page_bytes] & page_is_dirty) == 0) {
          add(at, page_end), at = page_end;
          continue;
        }
        const std::size_t cell_end = std::min((at / b.cell_bytes + 1) * b.cell_bytes, page_end);
        if (!b.written(machine, at / b.cell_bytes)) add(at, cell_end);
        at = cell_end;
      }
    }
    flush();
  }
}

void report_uses(Machine& machine) {
  CellUse use_of(machine);
  const Buffer* last = nullptr;
  std::size_t reported = 0;
  for_pages(machine, page_is_dirty | page_was_loaded, [&](const Buffer& b, std::size_t from, std::size_t to) {
    if (&b != last) last = &b, reported = 0;
    for (std::size_t at = from / b.cell_bytes * b.cell_bytes; at < to;) {
      const unsigned use = use_of(b, at / b.cell_bytes);
      std::size_t end = at + b.cell_bytes;
      while (end < to && use_of(b, end / b.cell_bytes) == use) end += b.cell_bytes;
      end = std::min(end, b.spec.bytes);
      if (use != 0 && ++reported <= most_stretches) report_use(machine.report, address_in(b, at), end - at, use);
      at = end;
    }
  });
}

void global_shadow::fill_unknown(Machine& machine, Buffer& b, const void* address, int bytes) {
  const auto at = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  for (std::size_t p = at / page_bytes; p <= (at + static_cast<std::size_t>(bytes) - 1) / page_bytes; ++p) {
    if (p >= b.pages.size() || (b.pages[p] & page_is_poisoned) != 0) continue;
    b.pages[p] |= page_is_poisoned;
    for (const BufferSpec::Stretch& s : b.spec.unknown) {
      const std::size_t end = std::min(s.end, (p + 1) * page_bytes);
      for (std::size_t i = std::max(s.first, p * page_bytes); i < end; ++i) {
        if (!b.written(machine, i / b.cell_bytes)) fill_poison(machine, b.begin + i, 1);
      }
    }
  }
}

void fill_unwritten(Machine& machine) {
  for (Buffer& b : machine.buffers.list) {
    if (machine.launch.sparse || !b.writable() || b.spec.zeroed || b.spec.role == BufferSpec::Role::heap) continue;
    if (b.spec.defined == nullptr) {
      fill_poison(machine, b.begin, b.spec.bytes);
      continue;
    }
    for (std::size_t i = 0; i < b.spec.bytes; ++i) {
      if (b.spec.defined[i] == 0) fill_poison(machine, b.begin + i, 1);
    }
  }
}

}  // namespace autosched::emulator
