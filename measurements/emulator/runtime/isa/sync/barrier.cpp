// Barriers of the threads of a block: bar.sync and its variants.
#include "machine/part.hpp"
#include "isa/sync/barrier.hpp"
#include "isa/program.hpp"
#include "isa/values/dropped.hpp"
#include "machine/describe_threads.hpp"

#include <algorithm>

namespace autosched::emulator {

// The barriers of the resident blocks.
struct Barriers : Unit {
  using Unit::Unit;

  struct Barrier {
    unsigned expected = 0;  // number of threads
    unsigned arrived = 0;
    bool whole = true;  // the barrier includes all threads of the block, regardless of their number
    SiteIndex site = 0;             // site of the first arrival
    std::vector<unsigned> waiting;  // warps that continue when it completes
    Knowledge joined;
    std::vector<std::pair<unsigned, Epoch>> arrivals;  // arriving warps, and their epochs
    std::vector<std::pair<unsigned, Epoch>> before;    // arrivals before the previous completion
  };
  PerBlock<std::vector<Barrier>> list{parking};  // the barriers of all blocks that run together
};

namespace {
using Barrier = Barriers::Barrier;

constexpr unsigned barriers_per_block = 16;

bool has_exited(Machine& machine, unsigned w) {
  const Thread* const first = &machine.threads[w * warp_size];
  return std::all_of(first, first + machine.warp_lanes[w], [](const Thread& t) { return t.state == State::exited; });
}

bool is_complete(Machine& machine, const Barrier& b, unsigned rank) {
  unsigned arrived_or_exited = b.arrived;
  for (unsigned w = rank * block_warps(machine); b.whole && w < (rank + 1) * block_warps(machine); ++w) {
    if (has_exited(machine, w)) arrived_or_exited += machine.warp_lanes[w];
  }
  return arrived_or_exited >= b.expected;
}

// A barrier of the whole block does not wait for threads that have exited, as in hardware since Volta. It is a fault if
// such a thread skipped the barrier and executed code after it.
void report_exited(Machine& machine, const Barrier& b, unsigned id, unsigned rank) {
  constexpr unsigned last_note = 75;  // up to this architecture, exited threads cause a note
  const auto exited = [rank, &machine](const Thread& t) {
    return t.rank == rank && t.state == State::exited && t.lane < machine.warp_lanes[t.warp];
  };
  const auto skipped = [&](const Thread& t) { return exited(t) && skipped_barrier(machine, t, b.site); };
  if (std::any_of(machine.threads.begin(), machine.threads.end(), skipped)) {
    FINDING(machine.report, barrier_not_reached, b.site,
            "barrier %u of block %u: some threads skip it but execute code after it (%s)", id,
            block_in_grid(machine, machine.block_index, rank), describe_others(machine, skipped).c_str());
  } else if (machine.program.target != 0 && machine.program.target <= last_note &&
             std::any_of(machine.threads.begin(), machine.threads.end(), exited)) {
    FINDING_OF_TWO(machine.report, barrier_not_reached, Grade::note, b.site, SiteIndex{0},
                   "barrier %u of block %u is not reached by threads that have exited: this only works on Volta "
                   "and later GPUs (%s)",
                   id, block_in_grid(machine, machine.block_index, rank), describe_others(machine, exited).c_str());
  }
}

// Completes the barrier, and returns the warps that continue.
std::vector<unsigned> complete(Machine& machine, Barrier& b, unsigned id, unsigned rank) {
  if (b.whole) report_exited(machine, b, id, rank);
  for (const unsigned v : b.waiting) {
    machine.clocks.known[v].join(b.joined);
    for (unsigned lane = 0; lane < machine.warp_lanes[v]; ++lane) {
      Thread& t = machine.threads[v * warp_size + lane];
      if (t.state == State::at_barrier) t.state = State::runnable;
    }
  }
  std::vector<unsigned> completed = std::move(b.waiting);
  std::vector<std::pair<unsigned, Epoch>> arrivals = std::move(b.arrivals);
  b = Barrier{};
  b.before = std::move(arrivals);
  return completed;
}

}  // namespace

bool arrive_at_barrier(Machine& machine, unsigned w, int id, int count, bool waits, std::vector<unsigned>& completed) {
  const bool whole_block = count == all_threads;
  if (id < 0 || id >= static_cast<int>(barriers_per_block) ||
      (!whole_block && (count <= 0 || count % static_cast<int>(warp_size) != 0))) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "barrier %d of %d threads: ids must be 0 to 15, thread counts multiples of 32", id, count);
    return false;
  }
  Barrier& b = machine.barriers.list[w / block_warps(machine) * barriers_per_block + static_cast<unsigned>(id)];
  const unsigned expected = whole_block ? machine.launch.threads : static_cast<unsigned>(count);
  if (b.arrived == 0) {
    b.expected = expected;
    b.whole = whole_block;
    b.site = machine.self->site;
  } else if (b.expected != expected) {
    FINDING(machine.report, invalid_argument, machine.self->site,
            "barrier %d is used with %u and with %u threads at the same time",
            id, b.expected, expected);
  }
  b.whole = b.whole && whole_block;
  machine.idle_polls.meet();
  b.arrived += whole_block ? machine.warp_lanes[w] : warp_size;
  const Epoch arrival = machine.clocks.now[w];
  machine.clocks.advance(w);
  // If nothing orders this arrival after all arrivals of the barrier's previous use, the arrival could count for the
  // previous use when the warps run in another order.
  for (const auto& [v, epoch] : b.before) {
    if (v != w && machine.clocks.seen(w, v) < epoch) {
      FINDING(machine.report, invalid_argument, machine.self->site,
              "%s may arrive at barrier %d before warp %u completes its previous use: nothing orders the two uses",
              describe(machine, agent_of(w, whole_warp), machine.block_index).c_str(), id, v % block_warps(machine));
      break;
    }
  }
  b.arrivals.emplace_back(w, arrival);
  b.joined.join(machine.clocks.known[w]);
  if (waits) {
    b.waiting.push_back(w);
    for (unsigned lane = 0; lane < machine.warp_lanes[w]; ++lane) {
      Thread& t = machine.threads[w * warp_size + lane];
      if (t.state == State::exited) continue;
      t.state = State::at_barrier;
      t.barrier = static_cast<unsigned>(id);
    }
  }
  if (is_complete(machine, b, w / block_warps(machine)))
    completed = complete(machine, b, static_cast<unsigned>(id), w / block_warps(machine));
  return true;
}

std::vector<std::pair<int, std::vector<unsigned>>> leave_barriers(Machine& machine, unsigned w) {
  std::vector<std::pair<int, std::vector<unsigned>>> completed;
  const unsigned rank = w / block_warps(machine);
  for (unsigned id = 0; id < barriers_per_block; ++id) {
    Barrier& b = machine.barriers.list[rank * barriers_per_block + id];
    if (b.arrived == 0 || !is_complete(machine, b, rank)) continue;
    completed.emplace_back(static_cast<int>(id), complete(machine, b, id, rank));
  }
  return completed;
}

void start_block_barriers(Machine& machine) {
  machine.barriers.list.assign(std::size_t{barriers_per_block} * cluster_blocks(machine), Barrier{});
}

void report_waiting_at_barriers(Machine& machine) {
  for (unsigned index = 0; index < machine.barriers.list.size(); ++index) {
    const unsigned id = index % barriers_per_block, rank = index / barriers_per_block;
    const Barrier& b = machine.barriers.list[index];
    if (b.arrived == 0) continue;
    auto waits_here = [id, rank](const Thread& t) {
      return t.rank != rank || (t.state == State::at_barrier && t.barrier == id);
    };
    FINDING(machine.report, barrier_not_reached, b.site,
            "barrier %u of block %u expects %u threads, but only %u arrive (%s)", id,
            block_in_grid(machine, machine.block_index, rank), b.expected, b.arrived,
            describe_others(machine, [&](const Thread& t) { return !waits_here(t); }).c_str());
  }
}

}  // namespace autosched::emulator

AUTOSCHED_PART(Barriers);
