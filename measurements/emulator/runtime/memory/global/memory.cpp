// Accesses of threads to global memory, which record writers and readers of each element that the kernel may write.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include <unordered_map>

#include "memory/copied.hpp"
#include "memory/poison.hpp"
#include "memory/global/buffers.hpp"
#include "memory/global/memory.hpp"
#include "memory/global/shadow.hpp"
#include "memory/nearly_equal.hpp"
#include "memory/uninitialized.hpp"
#include "memory/watched_reads.hpp"

namespace autosched::emulator {

using namespace global_shadow;

namespace {

using CopyOf = GlobalUses::CopyOf;

// Global memory accesses are recorded as stamps (who, when, where). Marks refer to stamps.

constexpr unsigned readers[] = {1, 2};  // indices in Buffer::marks; index 0 is the last write

Stamp stamp(Machine& machine, bool atomic, bool narrow = false) {
  return {machine.clocks.now[machine.self->warp], machine.self->fences, machine.self->agent, machine.self->site, atomic, narrow};
}
// True if an access by the running block is not atomic with respect to a write, because one of the two has block scope
// and the write is by another block.
bool too_narrow(Machine& machine, const Stamp& write, bool narrow) {
  return (narrow || write.narrow) && !of_running(machine, write.epoch);
}

// Reports a race between the running thread and another thread.
struct Race {
  const char* doing;
  const Stamp& other;
  const char* did;
};
void report_race(Machine& machine, const Buffer& b, std::size_t cell, const Race& race, Grade grade = Grade::fault,
                 const char* why = "") {
  const bool same_block = of_running(machine, race.other.epoch);
  FINDING_OF_TWO(machine.report, global_race, grade, machine.self->site, race.other.site,
                 "%s %s %s, which %s %s at %s, and nothing orders the two accesses%s%s",
                 describe_self(machine).c_str(), race.doing, element(b, cell).c_str(),
                 describe(machine, race.other.agent, block_of_epoch(machine, race.other.epoch)).c_str(),
                 race.did, describe_site(machine.report, race.other.site).c_str(),
                 same_block ? " (add a barrier)" : " (add a fence and an atomic on both sides)", why);
  if (grade == Grade::note) return;
  // If the race involves a read whose value turns out to have no effect, the fault is later downgraded to a note.
  if (race.doing[0] == 'r') {
    watch_read(machine, Kind::global_race, machine.self->site, machine.self->agent, true, nullptr, 0);
  } else if (race.did[0] == 'r' && (same_block || goes_nowhere(machine, race.other.site))) {
    watch_read(machine, Kind::global_race, race.other.site, race.other.agent, false, b.begin + cell * b.cell_bytes, b.cell_bytes);
  } else {
    confirm_race(machine, Kind::global_race, machine.self->site);
  }
}

void check_alignment(Machine& machine, const Buffer& b, const void* address, int bytes, const char* instruction) {
  // bytes is a power of two
  if ((reinterpret_cast<std::uintptr_t>(address) & static_cast<unsigned>(bytes - 1)) == 0) return;
  FINDING(machine.report, misaligned_access, machine.self->site, "%s: %s of %d bytes at %s is not aligned to its size",
          describe_self(machine).c_str(), instruction, bytes, element(b, address).c_str());
}

// True if a strong write was observed by a strong read that happened before the current action. The write then also
// happened before the current action (PTX ISA, memory consistency model: causality order includes observation order
// followed by base causality order).
bool observed(Machine& machine, const Buffer& b, std::size_t cell, const Stamp& write) {
  if (!write.atomic) return false;
  return std::any_of(std::begin(readers), std::end(readers), [&](unsigned reader) {
    const Stamp read = stamp_of(machine, b.mark(machine, reader, cell));
    return read.atomic && read.epoch != 0 && !too_narrow(machine, write, read.narrow) && ordered(machine, read);
  });
}

// Index in Buffer::marks at which a read is recorded; 0 if the read is not recorded. Plain reads are preferred to
// strong reads, because plain reads also race with atomics.
unsigned place_of_read(Machine& machine, const Buffer& b, std::size_t cell, const Stamp& mine) {
  const Stamp reads[] = {stamp_of(machine, b.mark(machine, readers[0], cell)),
                         stamp_of(machine, b.mark(machine, readers[1], cell))};
  int slot = -1;
  for (int k = 0; k < 2; ++k) {
    const Stamp& read = reads[k];
    if (read.epoch != 0 && read.agent == mine.agent && read.atomic == mine.atomic && of_running(machine, read.epoch))
      return readers[k];
    if (slot < 0 && read.epoch == 0) slot = k;
  }
  for (int k = 0; k < 2; ++k)
    if (slot < 0 && reads[k].atomic >= mine.atomic && ordered(machine, reads[k])) slot = k;
  if (slot < 0 && !mine.atomic) slot = reads[1].atomic ? 1 : 0;
  if (slot < 0) slot = reads[0].atomic ? 0 : reads[1].atomic ? 1 : -1;
  return slot < 0 ? 0 : readers[slot];
}

// Records a read. ``mark``: the mark of the stamp ``mine``.
void note_read(Machine& machine, Buffer& b, std::size_t cell, unsigned count, const Stamp& mine, Mark mark) {
  if (const Mark write = b.mark(machine, 0, cell); write != 0) b.set_marks(machine, 0, cell, count, write | was_read);
  if (b.mark(machine, readers[0], cell) == mark || b.mark(machine, readers[1], cell) == mark) return;
  if (const unsigned reader = place_of_read(machine, b, cell, mine)) b.set_marks(machine, reader, cell, count, mark);
}

// Checks and records a read. If ``known`` is not nullptr, the read is lazy. If a lazy read includes undefined bytes,
// stores in ``known`` which bytes are defined, and returns false. Otherwise returns true.
bool shadow_read(Machine& machine, Buffer& b, const void* address, int bytes, bool read_only, bool relaxed, bool narrow = false,
                 unsigned char* known = nullptr) {
  if (!b.writable() || !machine.launch.check) return true;
  note_pages(b, address, bytes, page_was_loaded);
  if (machine.poison != 0 && !b.spec.unknown.empty()) fill_unknown(machine, b, address, bytes);
  bool whole = true;
  const Cells cells = cells_of(b, address, bytes);
  Stamp mine = stamp(machine, relaxed, narrow);
  mine.constant = read_only;
  Mark mark = 0;  // reference to the stamp `mine`, created at the first cell that needs it
  unsigned count = 1;
  for (std::size_t cell = cells.begin; cell != cells.end; cell += count) {
    const Stamp write = b.write(machine, cell);
    count = write.epoch == 0 ? 1 : b.alike(cell, cells.end);
    if (write.epoch == 0) {
      if (!b.held_value(cell)) {
        if (known == nullptr) {
          FINDING(machine.report, uninitialized_global_read, machine.self->site, "%s reads %s, which was never written",
                  describe_self(machine).c_str(), element(b, cell).c_str());
          return true;
        }
        note_uninitialized(machine, Kind::uninitialized_global_read, machine.self->site, [&] {
          return describe_self(machine) + " reads " + element(b, cell) + ", which was never written";
        });
        if (whole) std::memset(known, 0xff, static_cast<std::size_t>(bytes));
        whole = false;
        const char *const begin = b.begin + cell * b.cell_bytes, *const first = static_cast<const char*>(address);
        for (int k = 0; k < bytes; ++k) {
          if (first + k >= begin && first + k < begin + b.cell_bytes) known[k] = 0;
        }
      }
    } else if (read_only && write.epoch >= machine.launch.began) {
      FINDING(machine.report, read_only_load_of_written, machine.self->site,
              "%s reads %s by ld.global.nc, but %s writes this element at %s in the same launch",
              describe_self(machine).c_str(),
              element(b, cell).c_str(), describe(machine, write.agent, block_of_epoch(machine, write.epoch)).c_str(),
              describe_site(machine.report, write.site).c_str());
      return whole;
    } else if (!(relaxed && write.atomic && !too_narrow(machine, write, narrow)) && !ordered(machine, write) &&
               !observed(machine, b, cell, write)) {
      report_race(machine, b, cell, {"reads", write, "wrote"});
      return whole;
    }
    if (mark == 0) mark = mark_of(machine, mine);
    note_read(machine, b, cell, count, mine, mark);
  }
  return whole;
}

// True if the write is by the corresponding thread of a block that does the same work as the running block.
bool by_replica(Machine& machine, const Stamp& write) {
  const unsigned block = block_in_grid(machine, block_of_epoch(machine, write.epoch), rank_of(machine, write.agent));
  return write.agent == machine.self->agent &&
         are_replicas(machine, block, block_in_grid(machine, machine.block_index, machine.self->rank));
}

constexpr std::size_t most_copies = std::size_t{1} << 20;

CopyOf& copy_in(Machine& machine, std::size_t cell) {
  if (machine.global_uses.copies == nullptr)
    machine.global_uses.copies = static_cast<CopyOf*>(reserve_zeroed(machine, most_copies * sizeof(CopyOf)));
  return machine.global_uses.copies[cell % most_copies];
}

// The location from which the running thread has loaded the value that it stores to a cell; 0 if the value was changed
// or was not loaded.
std::uint64_t source_of(Machine& machine, const Buffer& b, std::size_t cell, const void* address) {
  const char* const begin = b.begin + cell * b.cell_bytes;
  if (begin < static_cast<const char*>(address)) return 0;  // the store covers only part of the cell, or is misaligned
  const auto at = static_cast<std::size_t>(begin - static_cast<const char*>(address));
  const std::uint64_t from = machine.copied->from[at / machine.copied->element_bytes];
  return from == 0 ? 0 : from + at % machine.copied->element_bytes;
}

void note_copy(Machine& machine, const Buffer& b, std::size_t cell, const void* address) {
  copy_in(machine, cell) = {b.begin + cell * b.cell_bytes, source_of(machine, b, cell, address),
                            machine.clocks.now[machine.self->warp], machine.self->agent, machine.self->site};
}

// True if the launch has not written to a location.
bool is_untouched(Machine& machine, std::uint64_t location, int bytes) {
  const auto* const address = reinterpret_cast<const char*>(location);
  const Buffer* const b = buffer_at(machine, address, bytes);
  if (b == nullptr || !b->writable()) return b != nullptr;
  const Cells cells = cells_of(*b, address, bytes);
  for (std::size_t cell = cells.begin; cell != cells.end; ++cell) {
    if (b->written(machine, cell) && b->write(machine, cell).epoch >= machine.launch.began) return false;
  }
  return true;
}

// True if the running thread stores the same values as the last writers, because all these threads have loaded the
// values from the same locations, which the launch does not write.
bool copies_the_same(Machine& machine, const Buffer& b, const void* address, int bytes) {
  if (machine.copied == nullptr) return false;
  const Cells cells = cells_of(b, address, bytes);
  for (std::size_t cell = cells.begin; cell != cells.end; ++cell) {
    const CopyOf& copy = copy_in(machine, cell);
    const Stamp write = b.write(machine, cell);
    const bool is_last = copy.cell == b.begin + cell * b.cell_bytes && copy.epoch == write.epoch &&
                         copy.agent == write.agent && copy.site == write.site;
    // the other block computes another tile
    if (!of_running(machine, write.epoch) && !by_replica(machine, write)) return false;
    const std::uint64_t from = source_of(machine, b, cell, address);
    if (!is_last || from == 0 || copy.from != from || !is_untouched(machine, from, static_cast<int>(b.cell_bytes))) return false;
  }
  return true;
}

// True if the running thread stores back the unchanged value that it has loaded from the same location. For other
// threads, this is equivalent to a read.
bool stores_back(Machine& machine, const Buffer& b, const void* address, const void* from, int bytes) {
  if (machine.copied == nullptr || b.spec.role != BufferSpec::Role::variable) return false;
  if (std::memcmp(address, from, static_cast<std::size_t>(bytes)) != 0) return false;
  const Cells cells = cells_of(b, address, bytes);
  for (std::size_t cell = cells.begin; cell != cells.end; ++cell) {
    const bool holds_value = b.held_value(cell) || b.written(machine, cell);
    if (!holds_value || source_of(machine, b, cell, address) != reinterpret_cast<std::uint64_t>(b.begin + cell * b.cell_bytes))
      return false;
  }
  return true;
}

// Reports concurrent writes by two threads. If the values are equal or nearly equal, the finding is only a note in the
// cases below.
void report_two_writes(Machine& machine, const Buffer& b, std::size_t cell, const Stamp& write, const char* doing,
                       const void* address, const void* from, int bytes) {
  const bool same = from != nullptr && std::memcmp(address, from, static_cast<std::size_t>(bytes)) == 0;
  // Some races are only notes, because both writes store the same value: a constant, such as a flag; a value that
  // several threads of a block compute; or a value of several blocks that do the same work. If the tiles of two blocks
  // overlap in an element, this is a fault.
  const bool by_block =
      b.spec.role == BufferSpec::Role::variable && (of_running(machine, write.epoch) || by_replica(machine, write));
  if (same && ((by_block && write.site == machine.self->site) ||
               (stores_constant(machine, write.site) && stores_constant(machine, machine.self->site)))) {
    report_race(machine, b, cell, {doing, write, "wrote"}, Grade::note, "; both write the same value");
  } else if (same && by_block && copies_the_same(machine, b, address, bytes)) {
    report_race(machine, b, cell, {doing, write, "wrote"}, Grade::note,
                "; both write a value that they have loaded from the same unchanged address");
  } else if (from != nullptr && !same && by_block && write.site == machine.self->site &&
             nearly_equal(machine, address, from, bytes, machine.self->site)) {
    report_race(machine, b, cell, {doing, write,
            "wrote"}, Grade::note, "; both write sums that only differ in the last bits");
  } else {
    report_race(machine, b, cell, {doing, write, "wrote"});
  }
}

// Reports a write to a location that other threads have read, if nothing orders the accesses. Returns whether there is
// a finding.
bool report_write_behind(Machine& machine, const Buffer& b, std::size_t cell, const Stamp& read, bool atomic) {
  const char* const doing = atomic ? "updates" : "writes";
  const bool is_ordered = (atomic && read.atomic) || ordered(machine, read);
  // A thread that signals by a strong access after using a value has certainly read it, even without a fence.
  const bool is_seen = !is_ordered && glimpsed(machine, read) && used_before_signal(machine, read.site);
  if (!is_ordered && !is_seen) {
    report_race(machine, b, cell, {doing, read, "read"});
    return true;
  }
  if (!is_ordered) {
    report_race(machine, b, cell, {doing, read,
            "read"}, Grade::note, "; strong accesses (without fences) signal that the read has completed");
  }
  if (!read.constant || read.epoch < machine.launch.began) return !is_ordered;
  const bool is_used = is_seen || used_before_store(machine, read.site, machine.self->site,
            read.agent == machine.self->agent && of_running(machine, read.epoch));
  FINDING_OF_TWO(machine.report, read_only_load_of_written, is_used ? Grade::note : Grade::fault, machine.self->site, read.site,
                 "%s writes %s, which %s reads by ld.global.nc at %s in the same launch%s: use a plain load",
                 describe_self(machine).c_str(), element(b, cell).c_str(),
                 describe(machine, read.agent, block_of_epoch(machine, read.epoch)).c_str(),
                 describe_site(machine.report, read.site).c_str(), is_used ? " (the value was used before the write)" : "");
  return true;
}

// Checks and records a write. ``from``: the written value; nullptr for an atomic. Several lanes of a warp may write the
// same value with the same instruction.
void shadow_write(Machine& machine, Buffer& b, const void* address, int bytes, bool atomic, const void* from, bool narrow = false) {
  if (!machine.launch.check) return;
  const Cells cells = cells_of(b, address, bytes);
  const auto same_value = [&] {
    return from != nullptr && std::memcmp(address, from, static_cast<std::size_t>(bytes)) == 0;
  };
  const char* const doing = atomic ? "updates" : "writes";
  bool reported = false;
  Mark mine = 0;  // the stamp's mark, created when the first cell is marked
  unsigned count = 1;
  for (std::size_t cell = cells.begin; cell != cells.end; cell += count) {
    if (mine == 0) mine = mark_of(machine, stamp(machine, atomic, narrow));
    if (!atomic && machine.global_uses.under_atomics.empty()) {
      count = b.untouched(cell, cells.end);
      if (count != 0) {
        b.set_marks(machine, 0, cell, count, mine);
        continue;
      }
    }
    const Stamp write = b.write(machine, cell);
    count = atomic || !machine.global_uses.under_atomics.empty() ? 1 : b.alike(cell, cells.end);
    const bool both_strong = atomic && write.atomic && !too_narrow(machine, write, narrow);
    const bool together = write.site == machine.self->site && of_running(machine, write.epoch) &&
                          warp_of(write.agent) == machine.self->warp && write.agent != machine.self->agent && same_value();
    if (!reported && write.epoch != 0 && !both_strong && !together) {
      if (!ordered(machine, write) && !observed(machine, b, cell, write)) {
        report_two_writes(machine, b, cell, write, doing, address, from, bytes);
        reported = true;
      } else if (b.spec.role == BufferSpec::Role::output && !atomic && (b.mark(machine, 0, cell) & was_read) == 0 &&
                 (write.agent != machine.self->agent || !of_running(machine, write.epoch))) {
        FINDING(machine.report, lost_write, machine.self->site,
                "%s overwrites %s before anything has read the value that %s wrote at %s",
                describe_self(machine).c_str(), element(b, cell).c_str(),
                describe(machine, write.agent, block_of_epoch(machine, write.epoch)).c_str(),
                describe_site(machine.report, write.site).c_str());
        reported = true;
      }
    }
    if (!machine.global_uses.under_atomics.empty()) {
      const auto under = machine.global_uses.under_atomics.find(b.begin + cell * b.cell_bytes);
      if (under != machine.global_uses.under_atomics.end() && !reported && atomic && !ordered(machine, under->second)) {
        report_race(machine, b, cell, {doing, under->second, "wrote"});
        reported = true;
      }
      if (under != machine.global_uses.under_atomics.end() && !atomic) machine.global_uses.under_atomics.erase(under);
    }
    Mark next[2] = {};
    unsigned kept = 0;
    for (const unsigned reader : readers) {
      const Mark mark = b.mark(machine, reader, cell);
      if (mark == 0) continue;
      const Stamp read = stamp_of(machine, mark);
      if (atomic && !read.atomic) next[kept++] = mark;
      if (!reported) reported = report_write_behind(machine, b, cell, read, atomic);
    }
    if (atomic && !write.atomic && write.epoch >= machine.launch.began && write.epoch != 0)
      machine.global_uses.under_atomics[b.begin + cell * b.cell_bytes] = write;
    for (int k = 0; k < 2; ++k) b.set_marks(machine, readers[k], cell, count, next[k]);
    b.set_marks(machine, 0, cell, count, mine);
  }
  if (machine.copied != nullptr && b.spec.role == BufferSpec::Role::variable) {
    for (std::size_t cell = cells.begin; cell != cells.end; ++cell) note_copy(machine, b, cell, address);
  }
}

}  // namespace

bool read_input(Machine& machine, const std::uint64_t* addresses, std::uint32_t lanes, int bytes) {
  std::uint64_t lowest = ~std::uint64_t{0}, highest = 0, together = 0;
  for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
    const std::uint64_t address = addresses[__builtin_ctz(left)];
    lowest = std::min(lowest, address);
    highest = std::max(highest, address);
    together |= address;
  }
  const std::uint64_t span = highest - lowest + static_cast<unsigned>(bytes);
  if ((together & static_cast<unsigned>(bytes - 1)) != 0 || span > std::numeric_limits<int>::max()) return false;
  const auto* const first = reinterpret_cast<const char*>(lowest);
  Buffer* const b = buffer_at(machine, first, static_cast<int>(span));
  if (b == nullptr || b->writable() || !is_array(*b) || b->spec.unset || !b->spec.unknown.empty() || machine.launch.dependent) return false;
  if (!machine.launch.sparse) return true;
  if (span <= page_bytes) {  // the addresses span at most two pages, which contain the first and the last byte
    touch(machine, *b, first, static_cast<int>(span));
    return true;
  }
  for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
    touch(machine, *b, reinterpret_cast<const char*>(addresses[__builtin_ctz(left)]), bytes);
  }
  return true;
}

bool check_global_read(Machine& machine, const void* address, int bytes) {
  Buffer* b = check_access(machine, address, bytes, "cp.async");
  if (b == nullptr) return false;
  // cp.async is a weak load, which races with concurrent writes.
  shadow_read(machine, *b, address, bytes, false, false);
  return true;
}

void read_global_bulk(Machine& machine, void* to, const void* address, int bytes, const char* instruction) {
  Buffer* b = check_access(machine, address, bytes, instruction);
  if (b == nullptr) {
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return;
  }
  shadow_read(machine, *b, address, bytes, false, false);
  std::memcpy(to, address, static_cast<std::size_t>(bytes));
}

void write_global_bulk(Machine& machine, void* address, const void* from, int bytes, const char* instruction) {
  Buffer* b = check_access(machine, address, bytes, instruction, true);
  if (b == nullptr) return;
  if (!b->writable()) {
    FINDING(machine.report, write_to_input, machine.self->site, "%s writes %s, which is an input", describe_self(machine).c_str(),
            element(*b, address).c_str());
    return;
  }
  note_dirty(*b, address, bytes);
  shadow_write(machine, *b, address, bytes, false, from);
  std::memcpy(address, from, static_cast<std::size_t>(bytes));
}

bool read_global(Machine& machine, void* to, const void* address, int bytes, const char* instruction, bool read_only, bool relaxed,
                 bool narrow, unsigned char* known) {
  Buffer* b = check_access(machine, address, bytes, instruction);
  if (b == nullptr) {
    std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    return true;
  }
  check_alignment(machine, *b, address, bytes, instruction);
  const auto at = static_cast<std::size_t>(static_cast<const char*>(address) - b->begin);
  const bool is_unset = !b->writable() && !b->spec.unknown.empty() && !b->holds_values(at, at + static_cast<std::size_t>(bytes));
  if (b->spec.unset || is_unset) [[unlikely]] note_unset_read(machine, *b);
  const bool whole = shadow_read(machine, *b, address, bytes, read_only, relaxed, narrow, known);
  if (relaxed && machine.global_uses.any_release && machine.launch.check) acquire_from(machine, address);
  if (relaxed && machine.launch.check) glimpse(machine, address);
  std::memcpy(to, address, static_cast<std::size_t>(bytes));
  return whole;
}

void write_global(Machine& machine, void* address, const void* from, int bytes, const char* instruction, bool relaxed,
                  bool narrow) {
  Buffer* b = check_access(machine, address, bytes, instruction, true);
  if (b == nullptr) return;
  if (!b->writable()) {
    FINDING(machine.report, write_to_input, machine.self->site, "%s writes %s, which is an input", describe_self(machine).c_str(),
            element(*b, address).c_str());
    return;
  }
  check_alignment(machine, *b, address, bytes, instruction);
  b->spec.unset = false;
  note_dirty(*b, address, bytes);
  if (machine.launch.check && stores_back(machine, *b, address, from, bytes)) {
    shadow_read(machine, *b, address, bytes, false, relaxed, narrow);
    return;
  }
  shadow_write(machine, *b, address, bytes, relaxed, from, narrow);
  if (machine.global_uses.any_release) forget_releases(machine, address);
  if (relaxed && machine.launch.check) {
    synchronize(machine, address);
    show(machine, address);
  }
  if (machine.idle_polls.met() && machine.idle_polls.vain() != 0 &&
      std::memcmp(address, from, static_cast<std::size_t>(bytes)) != 0)
    machine.idle_polls.move();
  std::memcpy(address, from, static_cast<std::size_t>(bytes));
}

unsigned char* update_global(Machine& machine, void* address, int bytes, const char* instruction, bool narrow) {
  Buffer* b = check_access(machine, address, bytes, instruction, true);
  if (b == nullptr) return nullptr;
  if (!b->writable()) {
    FINDING(machine.report, write_to_input, machine.self->site, "%s updates %s, which is an input", describe_self(machine).c_str(),
            element(*b, address).c_str());
    return nullptr;
  }
  check_alignment(machine, *b, address, bytes, instruction);
  b->spec.unset = false;
  note_dirty(*b, address, bytes);
  if (machine.launch.check) {
    const std::size_t cell = cells_of(*b, address, bytes).begin;
    if (!b->written(machine, cell) && !b->held_value(cell)) {
      leave_undecided(machine);
      FINDING(machine.report, uninitialized_global_read, machine.self->site, "%s updates %s, which was never written",
              describe_self(machine).c_str(), element(*b, address).c_str());
    }
    glimpse(machine, address);
    shadow_write(machine, *b, address, bytes, true, nullptr, narrow);
    synchronize(machine, address);
    show(machine, address);
  }
  return static_cast<unsigned char*>(address);
}

}  // namespace autosched::emulator
