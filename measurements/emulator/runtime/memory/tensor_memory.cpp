// The contents of tensor memory, and records of accesses to it.
#include "machine/part.hpp"
#include "memory/tensor_memory.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

namespace autosched::emulator {

// Tensor memory of the running blocks, and the actors that access it.
struct TensorMemories : Unit {
  using Unit::Unit;

  PerBlock<std::vector<TensorMemory>> by_rank{parking};  // by rank of the block; empty until the first use
  PerBlock<std::map<std::pair<Agent, TensorWork>, TensorActor>> actors{parking};
  PerBlock<std::unordered_map<unsigned, const TensorActor*>> actors_by_number{parking};
  PerBlock<std::unordered_map<Agent, View>> fenced_after{
      parking};  // events before the last tcgen05.fence::after_thread_sync of a thread, or of a whole warp
};

namespace {

bool is_fenced_after(Machine& machine, const TensorUse& other, Agent me) {
  for (const Agent fencer : {me, agent_of(warp_of(me), whole_warp)}) {
    const auto fence = machine.tensor_memories.fenced_after.find(fencer);
    if (fence != machine.tensor_memories.fenced_after.end() && fence->second.holds(other.agent, other.epoch)) return true;
  }
  return false;
}

// Checks that the operation `other` has completed before the operation `use`, which `me` issues. Reports a finding if
// nothing orders the two, or if fences are missing that the PTX ISA requires between threads of different warps
// (9.7.16.6.4).
void check_order(Machine& machine, const TensorUse& other, const TensorUse& use, Agent me, unsigned column,
                 const char* doing, const char* did, const char* name) {
  if (other.epoch < machine.clocks.first) return;
  // Products of one thread with the same shape are executed in order. A copy (shape 0) is executed before everything
  // that the thread issues later.
  if (other.agent == use.agent && (other.shape == use.shape || other.shape == 0)) return;
  if (!machine.clocks.ordered(other.agent, other.epoch, me)) {
    FINDING(machine.report, tcgen05_in_flight, machine.self->site,
            "%s: %s %s column %u of tensor memory, which %s %s at %s without a wait for its completion",
            describe(machine, me, machine.block_index).c_str(), name, doing, column,
            describe(machine, other.agent, machine.block_index).c_str(), did, describe_site(machine.report, other.site).c_str());
    return;
  }
  const TensorActor& from = *machine.tensor_memories.actors_by_number.at(warp_of(other.agent));
  if (warp_of(from.issuer) == warp_of(me)) return;
  const bool before = from.commits || other.epoch <= from.fenced;
  if (before && is_fenced_after(machine, other, me)) return;
  FINDING_OF_TWO(
      machine.report, missing_tcgen05_fence, machine.grade_of_missing_fences, machine.self->site, other.site,
      "%s: %s %s column %u of tensor memory, which %s %s at %s: add tcgen05.fence::%s %s their synchronization",
      describe(machine, me, machine.block_index).c_str(), name, doing, column,
      describe(machine, other.agent, machine.block_index).c_str(), did, describe_site(machine.report, other.site).c_str(),
      before ? "after_thread_sync" : "before_thread_sync", before ? "after" : "before");
}

}  // namespace

TensorActor& tensor_actor(Machine& machine, Agent issuer, TensorWork work) {
  TensorActor& a = machine.tensor_memories.actors[{issuer, work}];
  if (a.actor == 0) {
    constexpr const char* names[] = {"a tcgen05.mma or cp of ", "a tcgen05.ld of ", "a tcgen05.st of "};
    a.actor = add_actor(machine, names[static_cast<int>(work)] + describe(machine, issuer, machine.block_index),
                        Kind::tcgen05_in_flight);
    a.issuer = issuer;
    a.commits = work == TensorWork::products;
    machine.tensor_memories.actors_by_number[a.actor] = &a;
  }
  return a;
}

TensorUse issue_tensor_work(Machine& machine, TensorActor& a, std::uint32_t shape) {
  const Epoch epoch = machine.clocks.first + a.issued++;
  machine.clocks.now[a.actor] = std::max(machine.clocks.now[a.actor], epoch);
  return {epoch, agent_of(a.actor, whole_warp), machine.self->site, shape};
}

TensorMemory& tensor_memory(Machine& machine, unsigned rank) {
  if (machine.tensor_memories.by_rank.empty()) machine.tensor_memories.by_rank.resize(cluster_blocks(machine));
  TensorMemory& memory = machine.tensor_memories.by_rank[rank];
  if (memory.words.empty()) {
    memory.words.assign(std::size_t{tensor_columns} * tensor_lanes, ~0u);
    memory.cells.resize(std::size_t{tensor_columns} * tensor_quarters);
  }
  return memory;
}

void start_block_tensor_memory(Machine& machine) {
  machine.tensor_memories.by_rank.clear();
  machine.tensor_memories.actors.clear();
  machine.tensor_memories.actors_by_number.clear();
  machine.tensor_memories.fenced_after.clear();
}

void end_block_tensor_memory(Machine& machine) {
  for (const TensorMemory& memory : machine.tensor_memories.by_rank) {
    for (const TensorAllocation& a : memory.allocations) {
      FINDING(machine.report, tensor_memory_misuse, a.site,
              "a block exits without tcgen05.dealloc of %u columns of tensor memory (from column %u on)",
              a.columns, a.column);
    }
    // While a block has the permit, other blocks of the SM wait in tcgen05.alloc. If the block has allocated more than
    // half of the columns, they would wait anyway.
    if (memory.most != 0 && memory.most <= tensor_columns / 2 && !memory.relinquished) {
      FINDING_OF_TWO(machine.report, tensor_memory_misuse, machine.grade_of_missing_fences, memory.allocated_at, 0,
                     "a block that allocates %u columns of tensor memory exits without "
                     "tcgen05.relinquish_alloc_permit: other blocks of its SM cannot allocate before it exits",
                     memory.most);
    }
  }
}

bool check_tensor_columns(Machine& machine, unsigned rank, unsigned column, unsigned columns, const char* name) {
  if (column + columns > tensor_columns) {
    FINDING(machine.report, tensor_memory_misuse, machine.self->site,
            "%s: %s of columns %u to %u of tensor memory, which has only %u columns",
            describe_self(machine).c_str(), name, column,
            column + columns - 1, tensor_columns);
    return false;
  }
  const TensorMemory& memory = tensor_memory(machine, rank);
  for (unsigned c = column; c < column + columns;) {
    const auto holds = [c](const TensorAllocation& a) { return a.column <= c && c < a.column + a.columns; };
    const auto allocation = std::find_if(memory.allocations.begin(), memory.allocations.end(), holds);
    if (allocation == memory.allocations.end()) {
      FINDING(machine.report, tensor_memory_misuse, machine.self->site,
              "%s: %s of column %u of tensor memory, which is not allocated", describe_self(machine).c_str(), name, c);
      return false;
    }
    c = allocation->column + allocation->columns;
  }
  return true;
}

std::uint32_t read_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                               const TensorUse& use, Agent me, const char* name) {
  TensorMemory::Cell& cell = tensor_memory(machine, rank).cell(column, quarter);
  if (machine.launch.check) {
    check_order(machine, cell.write, use, me, column, "reads", "writes", name);
    const auto same = std::find_if(cell.reads.begin(), cell.reads.end(), [&](const auto& r) { return r.agent == use.agent; });
    if (same != cell.reads.end()) {
      *same = use;
    } else {
      cell.reads.push_back(use);
    }
  }
  return lanes & ~cell.defined;
}

void write_tensor_cell(Machine& machine, unsigned rank, unsigned column, unsigned quarter, std::uint32_t lanes,
                       const TensorUse& use, Agent me, const char* name) {
  TensorMemory::Cell& cell = tensor_memory(machine, rank).cell(column, quarter);
  cell.defined |= lanes;
  if (!machine.launch.check) return;
  check_order(machine, cell.write, use, me, column, "writes", "writes", name);
  for (const TensorUse& read : cell.reads) check_order(machine, read, use, me, column, "writes", "reads", name);
  cell.write = use;
  cell.reads.clear();
}

void report_undefined_tensor_memory(Machine& machine, unsigned column, Agent me, const char* name) {
  FINDING(machine.report, uninitialized_tensor_memory, machine.self->site,
          "%s: %s reads column %u of tensor memory that was never written",
          describe(machine, me, machine.block_index).c_str(), name, column);
}

void check_tensor_columns_idle(Machine& machine, unsigned rank, unsigned column, unsigned columns, Agent me, const char* name) {
  if (!machine.launch.check) return;
  TensorMemory& memory = tensor_memory(machine, rank);
  for (unsigned c = column; c < column + columns; ++c) {
    for (unsigned q = 0; q < tensor_quarters; ++q) {
      TensorMemory::Cell& cell = memory.cell(c, q);
      check_order(machine, cell.write, {}, me, c, "frees", "writes", name);
      for (const TensorUse& read : cell.reads) check_order(machine, read, {}, me, c, "frees", "reads", name);
      cell = {};
    }
  }
}

void fence_before_thread_sync(Machine& machine, unsigned warp) {
  for (auto& [key, a] : machine.tensor_memories.actors) {
    // The fence only covers operations whose completion the warp has observed.
    if (warp_of(a.issuer) == warp && a.issued != 0) a.fenced = std::max(a.fenced, machine.clocks.seen(warp, a.actor));
  }
}

void fence_after_thread_sync(Machine& machine, unsigned warp, std::uint32_t lanes, bool whole) {
  if (whole) {
    machine.tensor_memories.fenced_after[agent_of(warp, whole_warp)] =
        machine.clocks.view_of(warp, static_cast<unsigned>(std::countr_zero(lanes)));
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    machine.tensor_memories.fenced_after[agent_of(warp, lane)] = machine.clocks.view_of(warp, lane);
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(TensorMemories);
