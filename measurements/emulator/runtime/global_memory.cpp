// Global memory: the launch's buffers between guard zones, who wrote and read each element of what the kernel may
// write, and happens-before between blocks by fences and atomics.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "counting.hpp"
#include "machine.hpp"

namespace autosched::emulator {
namespace {

constexpr std::size_t guard_bytes = std::size_t{64} << 20;

struct Stamp {
  Epoch epoch;           // 0: none
  std::uint32_t fences;  // of that thread before
  Who who;
  SiteIndex site;
  bool atomic;
};
struct Cell {
  Stamp write;
  Stamp reads[2];  // two readers since that stand for all
  bool write_was_read;
};

struct Buffer {
  BufferSpec spec;
  char* begin;
  Cell* cells;  // one an element, of outputs and workspaces
  unsigned char* touched;  // of a sparse launch: one a page, whether it has its content
  std::size_t elements() const { return spec.bytes / spec.element_bytes; }
  bool writable() const { return spec.role != BufferSpec::Role::input; }
};

std::vector<Buffer> buffers;

// Sparse launches: what a page holds is made when it is touched first.
constexpr std::size_t page_bytes = 4096;
struct Page {
  Buffer* buffer;
  std::size_t index;
};
std::vector<Page> touched_pages;

// What a block has published by a fence followed by an atomic: all of epochs up to covered[warp], and of each thread
// what came before so many of its fences.
struct Release {
  unsigned block, rank;
  Epoch begin;
  Epoch covered[max_warps] = {};
  std::vector<std::uint32_t> fences;

  bool covers(const Stamp& s) const {
    if (s.epoch < begin || s.epoch >= end_of_block(block)) return false;
    if (s.epoch <= covered[warp_of(s.who)]) return true;
    return s.fences < fences[warp_of(s.who) * warp_size + lane_of(s.who)];
  }
};
using ReleasePointer = std::shared_ptr<const Release>;

// A release this block has read through an atomic; it counts for those who are ordered behind a later fence.
struct Acquire {
  ReleasePointer release;
  Who who;  // the atomic
  Epoch epoch;
  Epoch fence_of_warp[max_warps] = {};  // first fence behind the atomic by some lane of each warp; 0: none
  std::vector<bool> fenced;             // by thread: has itself fenced behind the atomic

  bool visible_to(const Thread& t) const {
    if (fenced[t.linear]) return true;
    for (unsigned w = 0; w < warp_count; ++w) {
      if (fence_of_warp[w] != 0 && fence_of_warp[w] <= clocks.seen(t.warp, w)) return true;
    }
    return false;
  }
};

std::unordered_map<std::uintptr_t, std::vector<ReleasePointer>> released_at;  // by address of the atomic
std::vector<Acquire> acquires;                                                // of the running block
unsigned fences_in_block = 0;
struct {
  ReleasePointer release;
  unsigned fences = 0;
  Epoch epoch = 0;
  Who who = 0;
} latest_release;

Buffer* find(const void* address, int bytes) {
  const char* p = static_cast<const char*>(address);
  for (Buffer& b : buffers) {
    if (p >= b.begin && p + bytes <= b.begin + b.spec.bytes) return &b;
  }
  return nullptr;
}

// Element i of a sparse input, a function of the seed and of i alone, the same in measurements/emulator/sparse.py: an
// integer from 1 to 3 with a sign, so that sums are exact and no term is zero; or bits, but never all ones.
unsigned generated(const BufferSpec& spec, std::size_t i) {
  std::uint64_t x = spec.seed * 0x9e3779b97f4a7c15u + i;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  x ^= x >> 33;
  const unsigned which = static_cast<unsigned>(x & 0xffff) % 3;
  const bool negative = x >> 63 != 0;
  switch (spec.content) {
    case BufferSpec::Content::f16: return (negative ? 0x8000u : 0u) | (which == 0 ? 0x3c00u : which == 1 ? 0x4000u : 0x4200u);
    case BufferSpec::Content::bf16: return (negative ? 0x8000u : 0u) | (which == 0 ? 0x3f80u : which == 1 ? 0x4000u : 0x4040u);
    case BufferSpec::Content::e4m3: return (negative ? 0x80u : 0u) | (which == 0 ? 0x38u : which == 1 ? 0x40u : 0x44u);
    case BufferSpec::Content::e5m2: return (negative ? 0x80u : 0u) | (which == 0 ? 0x3cu : which == 1 ? 0x40u : 0x42u);
    case BufferSpec::Content::f32:
      return (negative ? 0x80000000u : 0u) | (which == 0 ? 0x3f800000u : which == 1 ? 0x40000000u : 0x40400000u);
    default: break;
  }
  const unsigned ones = spec.element_bytes == 4 ? ~0u : (1u << 8 * spec.element_bytes) - 1;
  const unsigned bits = static_cast<unsigned>(x >> 16) & ones;
  return bits == ones ? 0 : bits;
}

void touch(Buffer& b, const void* address, int bytes) {
  const auto first = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  for (std::size_t p = first / page_bytes; p <= (first + static_cast<std::size_t>(bytes) - 1) / page_bytes; ++p) {
    if (b.touched[p] != 0) continue;
    b.touched[p] = 1;
    touched_pages.push_back({&b, p});
    char* page = b.begin + p * page_bytes;
    const std::size_t size = std::min(page_bytes, b.spec.bytes - p * page_bytes);
    if (b.writable()) {
      if (!b.spec.zeroed) std::memset(page, 0xff, size);
      continue;
    }
    const std::size_t each = b.spec.element_bytes;
    for (std::size_t i = 0; i < size / each; ++i) {
      const unsigned value = generated(b.spec, p * page_bytes / each + i);
      std::memcpy(page + i * each, &value, each);  // little-endian hosts
    }
  }
}

bool ordered(const Stamp& before) {
  if (before.epoch < launch.began) return true;
  if (before.epoch >= clocks.first) {
    if (clocks.ordered(before.who, before.epoch, self->who)) return true;
    if (rank_of(before.who) == self->rank) return false;
  }
  for (auto a = acquires.rbegin(); a != acquires.rend(); ++a) {
    if (a->release->covers(before) && a->visible_to(*self)) return true;
  }
  return false;
}

Stamp stamp(bool atomic) { return {clocks.now[self->warp], self->fences, self->who, self->site, atomic}; }

std::string element(const Buffer& b, const void* address) {
  const auto index = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin) / b.spec.element_bytes;
  return "element " + std::to_string(index) + " of " + b.spec.name;
}
std::string element(const Buffer& b, const Cell& cell) {
  return "element " + std::to_string(&cell - b.cells) + " of " + b.spec.name;
}

void report_race(const Buffer& b, const Cell& cell, const char* doing, const Stamp& other, const char* did) {
  const bool same_block = other.epoch >= clocks.first;
  FINDING(global_race, self->site, "%s %s %s, which %s %s at %s, and nothing orders the two%s", describe_self().c_str(),
          doing, element(b, cell).c_str(), describe(other.who, block_of_epoch(other.epoch)).c_str(), did,
          place(other.site).c_str(),
          same_block ? " (a barrier would)" : " (a fence and an atomic on both sides would)");
}

// The buffer of an access, or nullptr (and a finding) where it is in none.
Buffer* check_access(const void* address, int bytes, const char* instruction) {
  Buffer* b = find(address, bytes);
  if (b == nullptr) {
    const std::string where = locate_global(address);
    FINDING(out_of_bounds_global, self->site, "%s: %s of %d bytes at %s", describe_self().c_str(), instruction, bytes,
            where.empty() ? "an address outside of every argument" : where.c_str());
    return nullptr;
  }
  if (launch.sparse && b->spec.role != BufferSpec::Role::variable) touch(*b, address, bytes);
  return b;
}

void check_alignment(const Buffer& b, const void* address, int bytes, const char* instruction) {
  if (reinterpret_cast<std::uintptr_t>(address) % static_cast<unsigned>(bytes) == 0) return;
  FINDING(misaligned_access, self->site, "%s: %s of %d bytes at %s is not aligned to its size", describe_self().c_str(),
          instruction, bytes, element(b, address).c_str());
}

struct Cells {
  Cell* begin;
  Cell* end;
};
Cells cells_of(Buffer& b, const void* address, int bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - b.begin);
  const std::size_t first = offset / b.spec.element_bytes;
  const std::size_t last = (offset + static_cast<std::size_t>(bytes) - 1) / b.spec.element_bytes;
  return {b.cells + first, b.cells + last + 1};
}

void note_read(Cell& cell) {
  cell.write_was_read = true;
  const Stamp mine = stamp(false);
  Stamp* slot = nullptr;
  for (Stamp& read : cell.reads) {
    if (read.who == mine.who && read.epoch >= clocks.first) {
      slot = &read;
      break;
    }
    if (slot == nullptr && (read.epoch == 0 || ordered(read))) slot = &read;
  }
  *(slot != nullptr ? slot : &cell.reads[0]) = mine;
}

void shadow_read(Buffer& b, const void* address, int bytes, bool read_only, bool relaxed) {
  if (!b.writable() || !launch.check) return;
  const Cells cells = cells_of(b, address, bytes);
  for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
    const Stamp& write = cell->write;
    if (write.epoch == 0) {
      if (!b.spec.zeroed) {
        FINDING(uninitialized_global_read, self->site, "%s reads %s, which nobody has written", describe_self().c_str(),
                element(b, *cell).c_str());
        return;
      }
    } else if (read_only && write.epoch >= launch.began) {
      FINDING(read_only_load_of_written, self->site,
              "%s reads %s by ld.global.nc, but %s writes it at %s in the same launch", describe_self().c_str(),
              element(b, *cell).c_str(), describe(write.who, block_of_epoch(write.epoch)).c_str(),
              place(write.site).c_str());
      return;
    } else if (!(relaxed && write.atomic) && !ordered(write)) {
      report_race(b, *cell, "reads", write, "wrote");
      return;
    }
    note_read(*cell);
  }
}

// ``same_value``: what is written is there already. Lanes of a warp may write one value with one instruction.
void shadow_write(Buffer& b, const void* address, int bytes, bool atomic, bool same_value = false) {
  if (!launch.check) return;
  const Cells cells = cells_of(b, address, bytes);
  bool reported = false;
  for (Cell* cell = cells.begin; cell != cells.end; ++cell) {
    const Stamp& write = cell->write;
    const bool together = same_value && write.site == self->site && write.epoch >= clocks.first &&
                          warp_of(write.who) == self->warp && write.who != self->who;
    if (!reported && write.epoch != 0 && !(atomic && write.atomic) && !together) {
      if (!ordered(write)) {
        report_race(b, *cell, atomic ? "updates" : "writes", write, "wrote");
        reported = true;
      } else if (b.spec.role == BufferSpec::Role::output && !atomic && !cell->write_was_read &&
                 (write.who != self->who || write.epoch < clocks.first)) {
        FINDING(lost_write, self->site, "%s writes %s over what %s wrote at %s and nobody has read",
                describe_self().c_str(), element(b, *cell).c_str(),
                describe(write.who, block_of_epoch(write.epoch)).c_str(), place(write.site).c_str());
        reported = true;
      }
    }
    for (const Stamp& read : cell->reads) {
      if (!reported && !atomic && read.epoch != 0 && !ordered(read)) {
        report_race(b, *cell, "writes", read, "read");
        reported = true;
      }
    }
    *cell = Cell{stamp(atomic), {}, false};
  }
}

// What this thread's fences, and those of others that are ordered before now, cover.
ReleasePointer current_release() {
  if (fences_in_block == 0) return nullptr;
  const Epoch epoch = clocks.now[self->warp];
  if (latest_release.release != nullptr && latest_release.fences == fences_in_block && latest_release.epoch == epoch &&
      latest_release.who == self->who) {
    return latest_release.release;
  }
  auto release = std::make_shared<Release>();
  release->block = block_index;
  release->rank = self->rank;
  release->begin = clocks.first;
  release->fences.assign(warp_count * warp_size, 0);
  bool any = false;
  for (const Thread& t : threads) {
    for (const Fence& fence : t.last_fences) {
      if (fence.count == 0 || !clocks.ordered(t.who, fence.epoch, self->who)) continue;
      for (unsigned w = 0; w < warp_count; ++w) release->covered[w] = std::max(release->covered[w], fence.seen[w]);
      release->fences[t.linear] = fence.count;
      any = true;
      break;
    }
  }
  latest_release = {any ? release : nullptr, fences_in_block, epoch, self->who};
  return latest_release.release;
}

// Takes over what others have published at this address.
void acquire_from(const void* address) {
  const auto found = released_at.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == released_at.end()) return;
  for (const ReleasePointer& release : found->second) {
    if (release->block == block_index && release->rank == self->rank) continue;
    const bool known = std::any_of(acquires.begin(), acquires.end(),
                                   [&](const Acquire& a) { return a.release == release && a.who == self->who; });
    if (known) continue;
    acquires.push_back({release, self->who, clocks.now[self->warp], {}, std::vector<bool>(threads.size())});
  }
}

void synchronize(void* address) {
  acquire_from(address);
  std::vector<ReleasePointer>& here = released_at[reinterpret_cast<std::uintptr_t>(address)];
  auto publish = [&](const ReleasePointer& release) {
    if (std::find(here.begin(), here.end(), release) == here.end()) here.push_back(release);
  };
  if (const ReleasePointer mine = current_release()) {
    publish(mine);
    // Causality is transitive: what this thread has acquired goes on to the next.
    for (const Acquire& a : acquires) {
      if (a.visible_to(*self)) publish(a.release);
    }
  }
}

// Whether element i of an output still holds what it held before the launch.
bool untouched(const Buffer& b, std::size_t i) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(b.begin) + i * b.spec.element_bytes;
  return std::all_of(bytes, bytes + b.spec.element_bytes, [](unsigned char c) { return c == 0xff; });
}

}  // namespace

void* reserve_zeroed(std::size_t bytes) {
  void* p = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("emulator: cannot reserve memory");
    std::exit(1);
  }
  return p;
}

std::vector<void*> reserve_buffers(const std::vector<BufferSpec>& specs) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<void*> addresses;
  for (const BufferSpec& spec : specs) {
    const std::size_t body = (spec.bytes + page - 1) / page * page;
    // Not reserved: a page takes memory when it is touched.
    void* zone = mmap(nullptr, body + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zone == MAP_FAILED) {
      std::perror("emulator: cannot reserve a buffer");
      std::exit(1);
    }
    char* begin = static_cast<char*>(zone) + guard_bytes;
    if (body != 0 && mprotect(begin, body, PROT_READ | PROT_WRITE) != 0) {
      std::perror("emulator: cannot allot a buffer");
      std::exit(1);
    }
    Buffer b{spec, begin, nullptr, nullptr};
    if (launch.sparse) b.touched = static_cast<unsigned char*>(reserve_zeroed(body / page_bytes + 1));
    if (b.writable()) b.cells = static_cast<Cell*>(reserve_zeroed(b.elements() * sizeof(Cell)));
    buffers.push_back(b);
    addresses.push_back(begin);
  }
  return addresses;
}

void start_block_global() {
  acquires.clear();
  fences_in_block = 0;
  latest_release = {};
}

std::string locate_global(const void* address) {
  const char* p = static_cast<const char*>(address);
  for (const Buffer& b : buffers) {
    const char* end = b.begin + b.spec.bytes;
    if (p < b.begin - guard_bytes || p >= end + guard_bytes) continue;
    char text[256];
    const auto size = static_cast<unsigned long long>(b.spec.bytes);
    if (p < b.begin) {
      std::snprintf(text, sizeof text, "%lld bytes before %s, which has %llu bytes",
                    static_cast<long long>(b.begin - p), b.spec.name.c_str(), size);
    } else {
      std::snprintf(text, sizeof text, "byte %lld of %s, which has %llu bytes", static_cast<long long>(p - b.begin),
                    b.spec.name.c_str(), size);
    }
    return text;
  }
  return "";
}

bool check_global_read(const void* address, int bytes, SiteIndex site) {
  self->site = site;
  Buffer* b = check_access(address, bytes, "cp.async");
  if (b == nullptr) return false;
  // cp.async is a weak load through L2.
  shadow_read(*b, address, bytes, false, false);
  return true;
}

void read_global_bulk(void* to, const void* address, int bytes, const char* instruction) {
  Buffer* b = check_access(address, bytes, instruction);
  if (b == nullptr) {
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return;
  }
  shadow_read(*b, address, bytes, false, false);
  std::memcpy(to, address, static_cast<std::size_t>(bytes));
}

void write_global_bulk(void* address, const void* from, int bytes, const char* instruction) {
  Buffer* b = check_access(address, bytes, instruction);
  if (b == nullptr) return;
  if (!b->writable()) {
    FINDING(write_to_input, self->site, "%s writes %s, which is an input", describe_self().c_str(),
            element(*b, address).c_str());
    return;
  }
  shadow_write(*b, address, bytes, false);
  std::memcpy(address, from, static_cast<std::size_t>(bytes));
}

void load_global(void* to, const void* address, int bytes, GlobalLoad how, Site site) {
  self->site = site_index(site);
  const bool read_only = how == GlobalLoad::read_only;
  const char* instruction = read_only ? "ld.global.nc" : "ld.global.cg";
  count_global(self->site, instruction, bytes, address);
  // A thread may poll for what another one writes.
  if (!read_only) {
    const SiteIndex here = self->site;
    yield();
    self->site = here;
  }
  read_global(to, address, bytes, instruction, read_only, !read_only);
}

void read_global(void* to, const void* address, int bytes, const char* instruction, bool read_only, bool relaxed) {
  Buffer* b = check_access(address, bytes, instruction);
  if (b == nullptr) {
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return;
  }
  check_alignment(*b, address, bytes, instruction);
  shadow_read(*b, address, bytes, read_only, relaxed);
  if (relaxed && launch.check) acquire_from(address);
  std::memcpy(to, address, static_cast<std::size_t>(bytes));
}

void store_global(void* address, const void* from, int bytes, Site site) {
  self->site = site_index(site);
  count_global(self->site, "st.global", bytes, address);
  write_global(address, from, bytes, "st.global", false);
}

void write_global(void* address, const void* from, int bytes, const char* instruction, bool relaxed) {
  Buffer* b = check_access(address, bytes, instruction);
  if (b == nullptr) return;
  if (!b->writable()) {
    FINDING(write_to_input, self->site, "%s writes %s, which is an input", describe_self().c_str(),
            element(*b, address).c_str());
    return;
  }
  check_alignment(*b, address, bytes, instruction);
  shadow_write(*b, address, bytes, relaxed, std::memcmp(address, from, static_cast<std::size_t>(bytes)) == 0);
  released_at.erase(reinterpret_cast<std::uintptr_t>(address));
  if (relaxed && launch.check) synchronize(address);
  std::memcpy(address, from, static_cast<std::size_t>(bytes));
}

unsigned atomic_add_u32(unsigned* address, unsigned value, Site site) {
  self->site = site_index(site);
  count_global(self->site, "atom.global.add", 4, address);
  const SiteIndex here = self->site;
  yield();
  self->site = here;
  if (update_global(address, 4, "atom.global.add") == nullptr) return ~0u;
  unsigned old;
  std::memcpy(&old, address, 4);
  const unsigned sum = old + value;
  std::memcpy(address, &sum, 4);
  return old;
}

unsigned char* update_global(void* address, int bytes, const char* instruction) {
  Buffer* b = check_access(address, bytes, instruction);
  if (b == nullptr) return nullptr;
  if (!b->writable()) {
    FINDING(write_to_input, self->site, "%s updates %s, which is an input", describe_self().c_str(),
            element(*b, address).c_str());
    return nullptr;
  }
  check_alignment(*b, address, bytes, instruction);
  if (launch.check) {
    const Cell& cell = *cells_of(*b, address, bytes).begin;
    if (cell.write.epoch == 0 && !b->spec.zeroed) {
      FINDING(uninitialized_global_read, self->site, "%s updates %s, which nobody has written",
              describe_self().c_str(), element(*b, address).c_str());
    }
    shadow_write(*b, address, bytes, true);
    synchronize(address);
  }
  return static_cast<unsigned char*>(address);
}

void fence_gpu(Site site) {
  self->site = site_index(site);
  fence_device();
}

void fence_device() {
  ++fences_in_block;
  ++self->fences;
  self->last_fences[1] = self->last_fences[0];
  Fence& fence = self->last_fences[0];
  fence.epoch = clocks.now[self->warp];
  fence.count = self->fences;
  for (unsigned w = 0; w < warp_count; ++w) fence.seen[w] = clocks.seen(self->warp, w);
  for (Acquire& a : acquires) {
    if (!clocks.ordered(a.who, a.epoch, self->who)) continue;
    a.fenced[self->linear] = true;
    if (a.fence_of_warp[self->warp] == 0) a.fence_of_warp[self->warp] = fence.epoch;
  }
}

void write_touched_outputs(int file) {
  auto put = [file](const void* bytes, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t n = write(file, static_cast<const char*>(bytes) + done, size - done);
      if (n <= 0) std::exit(1);
      done += static_cast<std::size_t>(n);
    }
  };
  std::vector<std::uint32_t> writer;
  for (const Page& page : touched_pages) {
    const Buffer& b = *page.buffer;
    if (b.spec.role != BufferSpec::Role::output) continue;
    const std::uint64_t first = page.index * page_bytes / b.spec.element_bytes;
    const auto count = static_cast<std::uint32_t>(
        std::min(page_bytes, b.spec.bytes - page.index * page_bytes) / b.spec.element_bytes);
    writer.assign(count, ~0u);
    for (std::size_t i = 0; i < count; ++i) {
      const Epoch epoch = b.cells[first + i].write.epoch;
      if (epoch != 0) writer[i] = block_in_grid(block_of_epoch(epoch), rank_of(b.cells[first + i].write.who));
    }
    const auto number = static_cast<std::uint32_t>(&b - buffers.data());
    put(&number, sizeof number);
    put(&first, sizeof first);
    put(&count, sizeof count);
    put(b.begin + page.index * page_bytes, count * std::size_t{b.spec.element_bytes});
    put(writer.data(), count * sizeof(std::uint32_t));
  }
}

void check_after_launch() {
  if (launch.sparse) {
    for (const Page& page : touched_pages) {
      const Buffer& b = *page.buffer;
      if (b.spec.role != BufferSpec::Role::workspace || !b.spec.zeroed) continue;
      const char* begin = b.begin + page.index * page_bytes;
      const char* end = std::min(begin + page_bytes, static_cast<const char*>(b.begin) + b.spec.bytes);
      const char* bad = std::find_if(begin, end, [](char c) { return c != 0; });
      if (bad != end) {
        FINDING(workspace_not_zero, 0, "%s must be zero again after the launch, and %s is not", b.spec.name.c_str(),
                element(b, bad).c_str());
      }
    }
    return;
  }
  for (const Buffer& b : buffers) {
    if (b.spec.role == BufferSpec::Role::output && launch.check) {
      std::size_t missing = 0, first = 0;
      bool plain = false;  // stores through plain pointers are not seen, but what they leave is
      for (std::size_t i = b.elements(); i-- > 0;) {
        if (b.cells[i].write.epoch != 0) continue;
        if (!untouched(b, i)) {
          plain = true;
          continue;
        }
        ++missing;
        first = i;
      }
      // Bytes of 0xFF may be what such a store wrote: -1, for one.
      if (missing != 0 && !plain) {
        FINDING(unwritten_output, 0, "%zu of %zu elements of %s were never written, the first is element %zu", missing,
                b.elements(), b.spec.name.c_str(), first);
      }
    }
    if (b.spec.role == BufferSpec::Role::workspace && b.spec.zeroed) {
      const char* end = b.begin + b.spec.bytes;
      const char* bad = std::find_if(static_cast<const char*>(b.begin), end, [](char c) { return c != 0; });
      if (bad != end) {
        FINDING(workspace_not_zero, 0, "%s must be zero again after the launch, and %s is not", b.spec.name.c_str(),
                element(b, bad).c_str());
      }
    }
  }
}

}  // namespace autosched::emulator
