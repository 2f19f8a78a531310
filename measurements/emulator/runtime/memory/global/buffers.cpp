// Allocates the launch's buffers between guard zones, locates addresses in them, and checks their final contents. In a
// sparse launch, pages get their contents on first access.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "machine/part.hpp"
#include "memory/counting.hpp"
#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/heap.hpp"
#include "memory/global/shadow.hpp"

namespace autosched::emulator {

using namespace global_shadow;

namespace {
using Page = Buffers::Page;
}  // namespace

namespace {

constexpr std::size_t guard_bytes = std::size_t{64} << 20;

}  // namespace

Buffer* global_shadow::buffer_at(Machine& machine, const void* address, int bytes) {
  const char* p = static_cast<const char*>(address);
  const auto holds = [&](const Buffer& b) { return p >= b.begin && p + bytes <= b.begin + b.spec.bytes; };
  Buffers& buffers = machine.buffers;
  if (buffers.last != nullptr && holds(*buffers.last)) return buffers.last;
  for (Buffer& b : buffers.list) {
    if (holds(b)) return buffers.last = &b;
  }
  return nullptr;
}

bool global_shadow::any_variable(Machine& machine) {
  return std::any_of(machine.buffers.list.begin(), machine.buffers.list.end(),
                     [](const Buffer& b) { return b.spec.role == BufferSpec::Role::variable; });
}

namespace {

// The integer hash lowbias32 (Wellons, "Prospecting for Hash Functions"). measurements/emulator/sparse.py computes the
// same inputs with this hash.
std::uint32_t number_of(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// The elements of a sparse input in a floating-point format: the bits of 1, 2 and 3, and the sign bit.
struct SmallFloats {
  unsigned of[3], sign;
};
SmallFloats small_floats(BufferSpec::Content content) {
  switch (content) {
    case BufferSpec::Content::f16: return {{0x3c00, 0x4000, 0x4200}, 0x8000};
    case BufferSpec::Content::bf16: return {{0x3f80, 0x4000, 0x4040}, 0x8000};
    case BufferSpec::Content::e4m3: return {{0x38, 0x40, 0x44}, 0x80};
    case BufferSpec::Content::e5m2: return {{0x3c, 0x40, 0x42}, 0x80};
    default: return {{0x3f800000, 0x40000000, 0x40400000}, 0x80000000};
  }
}

// Fills a page of a sparse input, which starts at element ``first``. Floats are integers 1 to 3 of either sign, so that
// sums are exact and no term is zero. Elements of other types have random bits, but never all bits set.
template <class Element>
void generate(const BufferSpec& spec, std::uint64_t first, char* page, std::size_t count) {
  const bool are_bits = spec.content == BufferSpec::Content::bits;
  const SmallFloats floats = small_floats(spec.content);
  // first >> 32 is the same for all elements of a page, because no page crosses a multiple of 2^32 elements.
  const std::uint32_t salt =
      number_of(static_cast<std::uint32_t>(spec.seed) + 0x9e3779b9u * static_cast<std::uint32_t>(first >> 32));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t x = number_of(static_cast<std::uint32_t>(first + i) ^ salt);
    auto value = static_cast<Element>(x);
    if (!are_bits) {
      value = static_cast<Element>(floats.of[(x >> 15 & 0xffff) * 3 >> 16] | (x >> 31 != 0 ? floats.sign : 0));
    } else if (value == std::numeric_limits<Element>::max()) {
      value = 0;
    }
    std::memcpy(page + i * sizeof value, &value, sizeof value);
  }
}

// Fills an undefined array with poison, or with ones if poisoning is disabled.
void fill_empty(Machine& machine, char* begin, std::size_t bytes) {
  if (machine.poison != 0) {
    fill_poison(machine, begin, bytes);
  } else {
    std::memset(begin, 0xff, bytes);
  }
}

}  // namespace

bool global_shadow::is_array(const Buffer& b) {
  return b.spec.role < BufferSpec::Role::variable || b.spec.content == BufferSpec::Content::file;
}

void global_shadow::touch(Machine& machine, Buffer& b, const void* address, int bytes) {
  const auto first = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  for (std::size_t p = first / page_bytes; p <= (first + static_cast<std::size_t>(bytes) - 1) / page_bytes; ++p) {
    if ((b.touched[p] & page_has_content) != 0) continue;
    b.touched[p] |= page_has_content;
    machine.buffers.touched_pages.push_back({&b, p});
    // a constant of the program, which already has its content
    const bool is_constant = !b.writable() && b.spec.content == BufferSpec::Content::none;
    if (b.spec.content == BufferSpec::Content::file || is_constant) continue;
    char* page = b.begin + p * page_bytes;
    const std::size_t size = std::min(page_bytes, b.spec.bytes - p * page_bytes);
    if (b.writable()) {
      if (!b.spec.zeroed) fill_empty(machine, page, size);
      continue;
    }
    const std::size_t each = b.spec.element_bytes, first_element = p * page_bytes / each;
    switch (each) {
      case 1: generate<std::uint8_t>(b.spec, first_element, page, size); break;
      case 2: generate<std::uint16_t>(b.spec, first_element, page, size / 2); break;
      default: generate<std::uint32_t>(b.spec, first_element, page, size / 4);
    }
  }
}

namespace global_shadow {

std::string element(const Buffer& b, const void* address) {
  const auto index = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin) / b.spec.element_bytes;
  return "element " + std::to_string(index) + " of " + b.spec.name;
}
std::string element(const Buffer& b, std::size_t cell) { return element(b, b.begin + cell * b.cell_bytes); }

void for_marks(Machine& machine, const std::function<void(Mark*, std::size_t)>& visit) {
  for (Buffer& b : machine.buffers.list) {
    if (b.marks[0] != nullptr && !(machine.launch.sparse && is_array(b))) visit(b.marks[0], 3 * b.words());
  }
  // only touched pages are visited, because arrays may have billions of cells
  for (const Page& page : machine.buffers.touched_pages) {
    Buffer& b = *page.buffer;
    if (b.marks[0] == nullptr) continue;
    const std::size_t each = std::size_t{b.cell_bytes} * b.cells_of_word, first = page.index * page_bytes / each;
    const std::size_t count = std::min(page_bytes / each, b.words() - first);
    visit(b.marks[0] + first, count);
    if (b.has_readers(first * b.cells_of_word)) visit(b.marks[1] + first, count), visit(b.marks[2] + first, count);
  }
  for_marks_apart(machine, visit);
}

// The launch ends after one line has made this many accesses outside of all memory. A GPU ends a launch at the first
// such access. Continuing may reveal further faults, but a loop over host pointers would run until the time limit.
constexpr std::uint64_t most_wild = std::uint64_t{1} << 20;

namespace {
void end_if_wild(Machine& machine, const void* address, const char* instruction) {
  const SiteIndex site = machine.self->site;
  if (times_found(machine.report, Kind::out_of_bounds_global, site) < most_wild || !locate_global(machine, address).empty()) return;
  constexpr const char* message =
          "a million accesses were outside of every argument; a GPU would end the launch at the first";
  FINDING(machine.report, trap, site, "%s: the launch ends at %s: %s", describe_self(machine).c_str(), instruction, message);
  keep_writes(machine);
  report_counts(machine);
  report_end(machine.report, "stopped", site, message);
  std::_Exit(0);
}
}  // namespace

Buffer* check_access(Machine& machine, const void* address, int bytes, const char* instruction, bool writes) {
  Buffer* b = buffer_at(machine, address, bytes);
  if (b == nullptr) {
    end_if_wild(machine, address, instruction);
    const std::string where = locate_global(machine, address);
    FINDING(machine.report, out_of_bounds_global, machine.self->site, "%s: %s of %d bytes at %s",
            describe_self(machine).c_str(), instruction, bytes,
            where.empty() ? "an address outside of every argument" : where.c_str());
    return nullptr;
  }
  if (machine.launch.dependent && !machine.self->waited) [[unlikely]]
    check_dependence(machine, *b, address, bytes, writes, instruction);
  if (!is_array(*b)) {
    return b->spec.role == BufferSpec::Role::heap && !check_heap(machine, address, bytes, instruction) ? nullptr : b;
  }
  if (machine.launch.sparse) touch(machine, *b, address, bytes);
  return b;
}

void note_unset_read(Machine& machine, Buffer& b) {
  if (b.unset_read == 0) b.unset_read = machine.self->site;
  if (b.writable()) return;  // no finding yet: the kernel itself may set the variable
  if (!b.spec.unset) {
    FINDING(machine.report, unset_symbol, machine.self->site,
            "%s reads bytes of %s, a __constant__ variable, that were never set: they are zero",
            describe_self(machine).c_str(),
            b.spec.name.c_str());
    return;
  }
  FINDING(machine.report, unset_symbol, machine.self->site,
          "%s reads %s, a __constant__ variable that was never set: it is zero", describe_self(machine).c_str(),
          b.spec.name.c_str());
}

}  // namespace global_shadow

namespace {
void reserve_marks(Machine& machine, Buffer& b) {
  b.cells_of_word = std::max(1u, static_cast<unsigned>(sizeof(Mark)) / b.cell_bytes);
  b.marks[0] = static_cast<Mark*>(reserve_zeroed(machine, 3 * b.words() * sizeof(Mark)));
  b.marks[1] = b.marks[0] + b.words();
  b.marks[2] = b.marks[1] + b.words();
}
}  // namespace

std::vector<void*> reserve_buffers(Machine& machine, const std::vector<BufferSpec>& specs) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<void*> addresses;
  for (const BufferSpec& spec : specs) {
    if (spec.address != nullptr) {
      Buffer b{spec,   static_cast<char*>(spec.address), {}, std::min(spec.element_bytes, machine.launch.narrowest_store), 1,
               nullptr};
      if (b.writable()) reserve_marks(machine, b);
      if (b.writable()) b.pages.resize(spec.bytes / page_bytes + 1);
      machine.buffers.list.push_back(b);
      addresses.push_back(spec.address);
      continue;
    }
    const std::size_t body = (spec.bytes + page - 1) / page * page;
    // Reserves address space. Pages are allocated at their first access.
    void* zone = mmap(nullptr, body + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zone == MAP_FAILED) {
      std::perror("emulator: cannot reserve a buffer");
      std::exit(1);
    }
    char* begin = static_cast<char*>(zone) + guard_bytes;
    if (body != 0 && mprotect(begin, body, PROT_READ | PROT_WRITE) != 0) {
      std::perror("emulator: cannot allocate a buffer");
      std::exit(1);
    }
    if (spec.content == BufferSpec::Content::file && body != 0 &&
        mmap(begin, body, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, machine.inputs_file,
             static_cast<off_t>(spec.seed)) == MAP_FAILED) {
      std::perror("emulator: cannot map an input");
      std::exit(1);
    }
    Buffer b{spec, begin, {}, spec.element_bytes, 1, nullptr};
    if (machine.launch.sparse) b.touched = static_cast<unsigned char*>(reserve_zeroed(machine, body / page_bytes + 1));
    if (!machine.launch.sparse) b.cell_bytes = std::min(spec.element_bytes, machine.launch.narrowest_store);
    if (b.writable()) reserve_marks(machine, b);
    machine.buffers.list.push_back(b);
    addresses.push_back(begin);
  }
  machine.buffers.last = nullptr;  // the pointer is invalid if the list has moved
  return addresses;
}

std::string locate_global(Machine& machine, const void* address) {
  const char* p = static_cast<const char*>(address);
  const auto distance = [p](const Buffer& b) {
    const char* end = b.begin + b.spec.bytes;
    return p < b.begin ? b.begin - p : p < end ? 0 : p - end;
  };
  const Buffer* nearest = nullptr;
  for (const Buffer& b : machine.buffers.list) {
    if (static_cast<std::size_t>(distance(b)) >= guard_bytes) continue;
    if (nearest == nullptr || distance(b) < distance(*nearest)) nearest = &b;
  }
  if (nearest == nullptr) return "";
  const Buffer& b = *nearest;
  char text[512];
  const auto size = static_cast<unsigned long long>(b.spec.bytes);
  if (p < b.begin) {
    std::snprintf(text, sizeof text, "%lld bytes before %s, which has %llu bytes", static_cast<long long>(b.begin - p),
                  b.spec.name.c_str(), size);
  } else {
    std::snprintf(text, sizeof text, "byte %lld of %s, which has %llu bytes", static_cast<long long>(p - b.begin),
                  b.spec.name.c_str(), size);
  }
  return text;
}

namespace {

// For each element of a range, gets the block that wrote it last; all ones if no block has written it.
void list_writers(Machine& machine, const Buffer& b, std::size_t first, std::size_t count, std::uint32_t* writers) {
  Mark last = 0;  // the last stamp is cached, because adjacent elements usually have the same stamp
  std::uint32_t block = ~0u;
  for (std::size_t i = 0, alike = 1; i < count; i += alike) {
    const std::size_t cell = first + i, word = cell / b.cells_of_word;
    alike = cell % b.cells_of_word == 0 && count - i >= b.cells_of_word && !is_apart(b.marks[0][word]) ? b.cells_of_word : 1;
    const Mark stamp = b.mark(machine, 0, cell) & numbers;
    if (stamp != last) {
      const Stamp write = stamp_of(machine, stamp);
      block = stamp == 0 ? ~0u : block_in_grid(machine, block_of_epoch(machine, write.epoch), rank_of(machine, write.agent));
      last = stamp;
    }
    std::fill_n(writers + i, alike, block);
  }
}

void write_pages(Machine& machine, int file, const Buffer& b, const std::vector<Page>& pages) {
  const std::uint64_t of_page = page_bytes / b.spec.element_bytes;
  std::vector<std::uint64_t> firsts, counts;  // ranges of elements: first element and length
  std::uint64_t all = 0;
  for (const Page& page : pages) {
    const std::uint64_t first = page.index * of_page, count = std::min<std::uint64_t>(of_page, b.elements() - first);
    if (!firsts.empty() && firsts.back() + counts.back() == first) {
      counts.back() += count;
    } else {
      firsts.push_back(first);
      counts.push_back(count);
    }
    all += count;
  }
  const std::uint64_t head[] = {static_cast<std::uint64_t>(&b - machine.buffers.list.data()), firsts.size()};
  put_bytes(file, head, sizeof head);
  put_bytes(file, firsts.data(), firsts.size() * sizeof firsts[0]);
  put_bytes(file, counts.data(), counts.size() * sizeof counts[0]);
  std::vector<std::uint32_t> writers(all);
  for (std::size_t s = 0, at = 0; s < firsts.size(); at += counts[s++]) {
    put_bytes(file, b.begin + firsts[s] * b.spec.element_bytes, counts[s] * b.spec.element_bytes);
    list_writers(machine, b, firsts[s], counts[s], writers.data() + at);
  }
  put_bytes(file, writers.data(), all * sizeof writers[0]);
}

}  // namespace

void write_touched_outputs(Machine& machine, int file) {
  std::vector<Page> pages;
  for (const Page& page : machine.buffers.touched_pages) {
    const BufferSpec::Role role = page.buffer->spec.role;
    if (role == BufferSpec::Role::output || role == BufferSpec::Role::variable) pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end(), [](const Page& a, const Page& b) {
    return std::pair(a.buffer, a.index) < std::pair(b.buffer, b.index);
  });
  for (auto first = pages.begin(), end = first; first != pages.end(); first = end) {
    const Buffer& b = *first->buffer;
    end = std::find_if(first, pages.end(), [&b](const Page& page) { return page.buffer != &b; });
    write_pages(machine, file, b, std::vector<Page>(first, end));
  }
}

void clear_unwritten(Machine& machine) {
  for (Buffer& b : machine.buffers.list) {
    if (machine.launch.sparse || b.spec.role != BufferSpec::Role::output) continue;
    for (std::size_t i = 0; i < b.spec.bytes; ++i) {
      if (!b.written(machine, i / b.cell_bytes)) b.begin[i] = static_cast<char>(0xff);
    }
  }
}

std::uint64_t digest_of_variables(Machine& machine) {
  std::uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&digest](std::uint64_t number) { digest = (digest ^ number) * 0x100000001b3u; };
  for (const Buffer& b : machine.buffers.list) {
    if (b.spec.role != BufferSpec::Role::variable || b.spec.address != nullptr) continue;
    for (std::size_t i = 0; i < b.spec.bytes; ++i) {
      if (!b.written(machine, i / b.cell_bytes)) continue;
      add(i);
      add(static_cast<unsigned char>(b.begin[i]));
    }
  }
  return digest;
}

void begin_call(Machine& machine) {
  forget_glimpses(machine);
  for (Buffer& b : machine.buffers.list) {
    // Variables and the heap keep their contents and the records of their writes. So do arrays that the kernel changes
    // in place.
    if (!b.writable() || b.spec.role >= BufferSpec::Role::variable) continue;
    if (b.spec.role == BufferSpec::Role::output) fill_empty(machine, b.begin, b.spec.bytes);
    b.forget_marks(machine);
  }
}

void check_after_call(Machine& machine) {
  const auto check_zero = [&machine](const Buffer& b, const char* begin, const char* end) {
    const char* bad = std::find_if(begin, end, [](char c) { return c != 0; });
    if (bad == end) return;
    FINDING(machine.report, workspace_not_zero, 0,
            "%s must be zero again after the launch, but %s is not", b.spec.name.c_str(),
            element(b, bad).c_str());
  };
  const auto is_zeroed_workspace = [](const Buffer& b) {
    return b.spec.role == BufferSpec::Role::workspace && b.spec.zeroed;
  };
  if (machine.launch.sparse) {
    for (const Page& page : machine.buffers.touched_pages) {
      const Buffer& b = *page.buffer;
      const char* begin = b.begin + page.index * page_bytes;
      if (is_zeroed_workspace(b)) check_zero(b, begin, std::min<const char*>(begin + page_bytes, b.begin + b.spec.bytes));
    }
    return;
  }
  for (const Buffer& b : machine.buffers.list) {
    if (b.spec.unset && b.writable() && b.unset_read != 0) {
      FINDING(machine.report, unset_symbol, b.unset_read,
              "%s, a __device__ variable, is read, but neither the host nor the kernel sets it: it is zero",
              b.spec.name.c_str());
    }
    if (is_zeroed_workspace(b)) check_zero(b, b.begin, b.begin + b.spec.bytes);
    if (b.spec.role != BufferSpec::Role::output || !machine.launch.check) continue;
    const std::size_t each = b.spec.element_bytes / b.cell_bytes;
    std::size_t missing = 0, first = 0;
    for (std::size_t e = b.elements(); e-- > 0;) {
      std::size_t cell = e * each;
      while (cell < (e + 1) * each && b.written(machine, cell)) ++cell;
      if (cell == (e + 1) * each) continue;
      ++missing;
      first = e;
    }
    if (missing == 0) continue;
    FINDING(machine.report, unwritten_output, 0,
            "%zu of %zu elements of %s were never written; the first is element %zu", missing,
            b.elements(), b.spec.name.c_str(), first);
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(Buffers);
