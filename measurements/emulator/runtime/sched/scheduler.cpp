// Runs the warps of the running blocks, and reports threads that wait forever.
#include "machine/describe_threads.hpp"
#include "interpreter/interpreter.hpp"
#include "isa/program.hpp"
#include "memory/global/dependence.hpp"
#include "memory/shared/memory.hpp"
#include "sched/scheduler.hpp"
#include "isa/sync/barrier.hpp"
#include "order/block_order.hpp"
#include "order/global_order.hpp"

#include <algorithm>
#include <cstdio>

namespace autosched::emulator {

namespace {

bool can_run(Machine& machine, unsigned w) {
  const Thread* const first = &machine.threads[w * warp_size];
  return std::any_of(first, first + machine.warp_lanes[w], [](const Thread& t) { return t.state == State::runnable; });
}

}  // namespace

// Reports which threads wait for which other threads, when no thread can continue.
void report_deadlock(Machine& machine) {
  report_waiting_at_barriers(machine);
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    for (unsigned lane = 0; lane < machine.warp_lanes[w]; ++lane) {
      const Thread& t = machine.threads[w * warp_size + lane];
      if (t.state != State::gathering) continue;
      auto with_me = [&](const Thread& o) {
        return o.state == State::gathering && o.collective == t.collective && o.mask == t.mask;
      };
      // Reports one finding per group of lanes that wait together, for its first lane.
      bool first = true;
      for (unsigned l = 0; l < lane; ++l) first = first && !with_me(machine.threads[w * warp_size + l]);
      if (!first) continue;
      const std::string other_lanes_text =
          describe_others(machine, [&](const Thread& o) { return o.warp == t.warp && !with_me(o); });
      const Kind kind = t.collective->barrier ? Kind::barrier_not_reached : Kind::missing_lanes;
      if (count_finding(machine.report, kind, t.site)) {
        char lanes[32] = "every lane";
        if (t.mask != 0) std::snprintf(lanes, sizeof lanes, "the lanes %#010x", t.mask);
        write_finding(machine.report, kind, t.site, "%s needs %s of warp %u of block %u, but some never reach it (%s)",
                      t.collective->name, lanes, w % block_warps(machine),
                      block_in_grid(machine, machine.block_index, w / block_warps(machine)), other_lanes_text.c_str());
      }
    }
  }
}

const Thread* waiting_thread(Machine& machine) {
  const auto waits = [](const Thread& t) { return t.spins && t.state != State::exited; };
  const auto thread = std::find_if(machine.threads.begin(), machine.threads.end(), waits);
  return thread == machine.threads.end() ? nullptr : &*thread;
}

void start_blocks(Machine& machine, Epoch first) {
  start_clocks(machine, first);
  machine.turn = 0;
  machine.idle_polls = 0;
  start_block_shared(machine);
  start_block_global(machine);
  start_block_order(machine);
  start_block_dependence(machine);
  start_block_barriers(machine);
  for (unsigned n = 0; n < machine.launch.threads * cluster_blocks(machine); ++n) {
    const unsigned i = n % machine.launch.threads, rank = n / machine.launch.threads;
    const unsigned index = rank * block_warps(machine) * warp_size + i;
    const Index3 block = block_coordinates(machine, machine.block_index, rank);
    Thread& t = machine.threads[index];
    t.index = {i % machine.block_size.x, i / machine.block_size.x % machine.block_size.y,
               i / machine.block_size.x / machine.block_size.y};
    t.block = block;
    t.linear = index;
    t.rank = rank;
    t.warp = index / warp_size;
    t.lane = i % warp_size;
    t.agent = agent_of(t.warp, t.lane);
    t.state = State::runnable;
    t.polls = t.spins = t.waited = false;
    t.site = 0;
    t.copies.clear();
    t.group = 0;
    t.fences = 0;
    t.last_fences[0].count = t.last_fences[1].count = 0;
  }
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    machine.warp_lanes[w] = std::min(warp_size, machine.launch.threads - w % block_warps(machine) * warp_size);
  }
  ptx::start_block(machine);
}

namespace {

constexpr unsigned patience_of_pollers = 2048;  // polls per warp without progress that count as a deadlock
constexpr unsigned patience_of_turns = 8;       // other blocks run after this many polls per warp without progress
constexpr unsigned patience_where_warps_meet = 8;  // the previous limit is multiplied by this if warps met at barriers
constexpr unsigned patience_of_loops = 256;     // laps of long loops (IdlePolls::add_lap) after which other blocks run
constexpr unsigned furthest = 24;               // with a seed, a warp runs up to this many times in a row per round

bool all_exited(Machine& machine) {
  return std::all_of(machine.threads.begin(), machine.threads.end(), [](const Thread& t) { return t.state == State::exited; });
}

}  // namespace

bool wait_in_vain(Machine& machine, unsigned resident) {
  return machine.idle_polls.vain() > std::uint64_t{patience_of_pollers} * machine.warp_count * std::max(1u, resident / 8);
}

// With a seed, warps run in random order, and some warps run far ahead of other warps.
Turn run_blocks(Machine& machine, bool may_yield) {
  unsigned turns[max_warps];
  for (unsigned w = 0; w < machine.warp_count; ++w) turns[w] = w;
  const bool random = machine.launch.order_seed != 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (unsigned w = machine.warp_count; random && w > 1; --w) std::swap(turns[w - 1], turns[random_below(machine, w)]);
    for (unsigned i = 0; i < machine.warp_count; ++i) {
      const unsigned w = turns[i];
      const unsigned times = random ? 1 + random_below(machine, furthest) : 1;
      for (unsigned time = 0; time < times; ++time) {
        if (!can_run(machine, w)) break;
        ptx::run_warp(machine, w);
        progress = true;
      }
    }
    if (!may_yield) {
      if (machine.idle_polls > patience_of_pollers * machine.warp_count) break;
    } else if (machine.idle_polls >
                   patience_of_turns * machine.warp_count * (machine.idle_polls.met() ? patience_where_warps_meet : 1) ||
               machine.idle_polls.laps() > patience_of_loops) {
      machine.self = nullptr;
      return Turn::waits;
    }
  }
  machine.self = nullptr;
  return all_exited(machine) ? Turn::ended : Turn::stuck;
}

// Runs one warp up to its next memory access.
Turn run_step(Machine& machine) {
  for (unsigned i = 0; i < machine.warp_count; ++i) {
    const unsigned w = seeded(machine) ? random_below(machine, machine.warp_count) : machine.turn++ % machine.warp_count;
    if (!can_run(machine, w)) continue;
    ptx::run_warp(machine, w);
    machine.self = nullptr;
    return Turn::waits;
  }
  for (unsigned w = 0; w < machine.warp_count; ++w) {
    if (can_run(machine, w)) return Turn::waits;
  }
  return all_exited(machine) ? Turn::ended : Turn::stuck;
}

// Replaces the list of blocks to run with a list of the clusters that contain these blocks.
void choose_clusters(Machine& machine) {
  const Index3 c = machine.launch.cluster;
  const unsigned wide = machine.grid_size.x / c.x, high = machine.grid_size.y / c.y;
  std::vector<unsigned> clusters;
  for (const unsigned block : machine.launch.blocks) {
    const unsigned x = block % machine.grid_size.x, y = block / machine.grid_size.x % machine.grid_size.y,
                   z = block / machine.grid_size.x / machine.grid_size.y;
    const unsigned unit = (z / c.z * high + y / c.y) * wide + x / c.x;
    if (std::find(clusters.begin(), clusters.end(), unit) == clusters.end()) clusters.push_back(unit);
  }
  machine.launch.blocks = clusters;
}

}  // namespace autosched::emulator
