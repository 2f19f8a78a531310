// The shadow of tensor memory.
#include "memory/tensor_memory.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

namespace autosched::emulator {

Grade grade_of_missing_fences = Grade::fault;

namespace {

PerBlock<std::vector<TensorMemory>> memories;  // by rank; empty until the first use
PerBlock<std::map<std::pair<Who, TensorWork>, TensorActor>> actors;
PerBlock<std::unordered_map<unsigned, const TensorActor*>> actors_by_number;
PerBlock<std::unordered_map<Who, View>> fenced_after;  // what a thread, or a whole warp, knew at its last fence::after_thread_sync

bool is_fenced_after(const TensorUse& other, Who me) {
  for (const Who who : {me, who_of(warp_of(me), whole_warp)}) {
    const auto found = fenced_after.find(who);
    if (found != fenced_after.end() && found->second.holds(other.who, other.epoch)) return true;
  }
  return false;
}

// Whether `other` has ended before what `me` does now. A finding where nothing says so, or where the fences are missing
// that the PTX ISA asks for (9.7.16.6.4) between the threads of different warps.
void check_order(const TensorUse& other, const TensorUse& use, Who me, unsigned column, const char* doing, const char* did,
                 const char* name) {
  if (other.epoch < clocks.first) return;
  // Of one thread, products of one shape follow each other, and whatever follows a copy, whose shape is 0, finds what it brought.
  if (other.who == use.who && (other.shape == use.shape || other.shape == 0)) return;
  if (!clocks.ordered(other.who, other.epoch, me)) {
    FINDING(tcgen05_in_flight, self->site, "%s: %s %s column %u of tensor memory, which %s %s at %s, and nothing says that it has ended",
            describe(me, block_index).c_str(), name, doing, column, describe(other.who, block_index).c_str(), did,
            place(other.site).c_str());
    return;
  }
  const TensorActor& from = *actors_by_number.at(warp_of(other.who));
  if (warp_of(from.issuer) == warp_of(me)) return;
  const bool before = from.commits || other.epoch <= from.fenced;
  if (before && is_fenced_after(other, me)) return;
  FINDING_OF_TWO(missing_tcgen05_fence, grade_of_missing_fences, self->site, other.site,
          "%s: %s %s column %u of tensor memory, which %s %s at %s: no tcgen05.fence::%s stands %s their synchronization",
          describe(me, block_index).c_str(), name, doing, column, describe(other.who, block_index).c_str(), did,
          place(other.site).c_str(), before ? "after_thread_sync" : "before_thread_sync", before ? "behind" : "in front of");
}

}  // namespace

TensorActor& tensor_actor(Who issuer, TensorWork work) {
  TensorActor& a = actors[{issuer, work}];
  if (a.actor == 0) {
    constexpr const char* names[] = {"a tcgen05.mma or cp of ", "a tcgen05.ld of ", "a tcgen05.st of "};
    a.actor = add_actor(names[static_cast<int>(work)] + describe(issuer, block_index), Kind::tcgen05_in_flight);
    a.issuer = issuer;
    a.commits = work == TensorWork::products;
    actors_by_number[a.actor] = &a;
  }
  return a;
}

TensorUse issue_tensor_work(TensorActor& a, std::uint32_t shape) {
  const Epoch epoch = clocks.first + a.issued++;
  clocks.now[a.actor] = std::max(clocks.now[a.actor], epoch);
  return {epoch, who_of(a.actor, whole_warp), self->site, shape};
}

TensorMemory& tensor_memory(unsigned rank) {
  if (memories.empty()) memories.resize(cluster_blocks());
  TensorMemory& memory = memories[rank];
  if (memory.words.empty()) {
    memory.words.assign(std::size_t{tensor_columns} * tensor_lanes, ~0u);
    memory.cells.resize(std::size_t{tensor_columns} * tensor_quarters);
  }
  return memory;
}

void start_block_tensor_memory() {
  memories.clear();
  actors.clear();
  actors_by_number.clear();
  fenced_after.clear();
}

void end_block_tensor_memory() {
  for (const TensorMemory& memory : memories) {
    for (const TensorAllocation& a : memory.allocations) {
      FINDING(tensor_memory_misuse, a.site, "a block exits without tcgen05.dealloc of the %u columns at %u of tensor memory",
              a.columns, a.column);
    }
  }
}

bool check_tensor_columns(unsigned rank, unsigned column, unsigned columns, const char* name) {
  if (column + columns > tensor_columns) {
    FINDING(tensor_memory_misuse, self->site, "%s: %s of columns %u to %u of tensor memory, which has %u", describe_self().c_str(),
            name, column, column + columns - 1, tensor_columns);
    return false;
  }
  const TensorMemory& memory = tensor_memory(rank);
  for (unsigned c = column; c < column + columns;) {
    const auto holds = [c](const TensorAllocation& a) { return a.column <= c && c < a.column + a.columns; };
    const auto found = std::find_if(memory.allocations.begin(), memory.allocations.end(), holds);
    if (found == memory.allocations.end()) {
      FINDING(tensor_memory_misuse, self->site, "%s: %s of column %u of tensor memory, which is not allocated",
              describe_self().c_str(), name, c);
      return false;
    }
    c = found->column + found->columns;
  }
  return true;
}

std::uint32_t read_tensor_cell(unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes, const TensorUse& use,
                               Who me, const char* name) {
  TensorMemory::Cell& cell = tensor_memory(rank).cell(column, quarter);
  if (launch.check) {
    check_order(cell.write, use, me, column, "reads", "writes", name);
    const auto same = std::find_if(cell.reads.begin(), cell.reads.end(), [&](const TensorUse& r) { return r.who == use.who; });
    if (same != cell.reads.end()) {
      *same = use;
    } else {
      cell.reads.push_back(use);
    }
  }
  return lanes & ~cell.defined;
}

void write_tensor_cell(unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes, const TensorUse& use, Who me,
                       const char* name) {
  TensorMemory::Cell& cell = tensor_memory(rank).cell(column, quarter);
  cell.defined |= lanes;
  if (!launch.check) return;
  check_order(cell.write, use, me, column, "writes", "writes", name);
  for (const TensorUse& read : cell.reads) check_order(read, use, me, column, "writes", "reads", name);
  cell.write = use;
  cell.reads.clear();
}

void report_undefined_tensor_memory(unsigned column, Who me, const char* name) {
  FINDING(uninitialized_tensor_memory, self->site, "%s: %s reads column %u of tensor memory where nobody has written",
          describe(me, block_index).c_str(), name, column);
}

void check_tensor_columns_idle(unsigned rank, unsigned column, unsigned columns, Who me, const char* name) {
  if (!launch.check) return;
  TensorMemory& memory = tensor_memory(rank);
  for (unsigned c = column; c < column + columns; ++c) {
    for (unsigned q = 0; q < tensor_quarters; ++q) {
      TensorMemory::Cell& cell = memory.cell(c, q);
      check_order(cell.write, {}, me, c, "frees", "writes", name);
      for (const TensorUse& read : cell.reads) check_order(read, {}, me, c, "frees", "reads", name);
      cell = {};
    }
  }
}

void fence_before_thread_sync(unsigned warp) {
  for (auto& [key, a] : actors) {
    // Only what the warp has waited for is sure to be in front of the fence.
    if (warp_of(a.issuer) == warp && a.issued != 0) a.fenced = std::max(a.fenced, clocks.seen(warp, a.actor));
  }
}

void fence_after_thread_sync(unsigned warp, std::uint32_t lanes, bool whole) {
  if (whole) {
    fenced_after[who_of(warp, whole_warp)] = clocks.view_of(warp, static_cast<unsigned>(std::countr_zero(lanes)));
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    fenced_after[who_of(warp, lane)] = clocks.view_of(warp, lane);
  }
}

}  // namespace autosched::emulator
