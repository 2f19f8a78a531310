// Runs the blocks that are together: their warps in turns, their barriers, and what is said of threads that wait for ever.
#include "isa/interpreter.hpp"
#include "isa/program.hpp"
#include "memory/shared/memory.hpp"
#include "sched/scheduler.hpp"
#include "sync/barrier.hpp"
#include "sync/block_order.hpp"
#include "sync/global_order.hpp"

#include <algorithm>
#include <cstdio>

namespace autosched::emulator {

Launch launch;
PerBlock<Clocks> clocks;
PerBlock<std::vector<Thread>> threads;
Warp warps[max_warps];
unsigned warp_count = 0;
Thread* self = nullptr;
unsigned block_index = 0;
IdlePolls idle_polls;

Index3 block_size{1, 1, 1}, grid_size{1, 1, 1};

namespace {

constexpr unsigned barriers_per_block = 16;

struct Barrier {
  unsigned expected = 0;  // threads
  unsigned arrived = 0;
  bool whole = true;  // of the block, however many threads it has
  SiteIndex site = 0;             // of the first arrival
  std::vector<unsigned> waiting;  // warps that go on when it completes
  Knowledge joined;
  std::vector<std::pair<unsigned, Epoch>> arrivals;  // warps, each with its epoch
  std::vector<std::pair<unsigned, Epoch>> before;    // those of the last time that it completed
};

PerBlock<std::vector<Barrier>> barriers;  // of all blocks that run together
Parked<unsigned> parked_index{block_index};

// "threads 0-31, 64" of linear thread indices in ascending order.
std::string list_threads(const std::vector<unsigned>& indices) {
  std::string text = indices.size() == 1 ? "thread " : "threads ";
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t j = i;
    while (j + 1 < indices.size() && indices[j + 1] == indices[j] + 1) ++j;
    if (i != 0) text += ", ";
    text += std::to_string(indices[i]);
    if (j > i) text += "-" + std::to_string(indices[j]);
    i = j + 1;
  }
  return text;
}

// What the threads for which `wanted` holds are doing: "threads 32-63: exited; thread 5: at mma.sync, f.cuh:3".
template <class Wanted>
std::string describe_others(Wanted wanted) {
  std::vector<std::pair<std::string, std::vector<unsigned>>> groups;
  for (const Thread& t : threads) {
    if (!wanted(t)) continue;
    std::string what =
        t.state == State::exited ? "exited"
        : t.state == State::runnable || t.collective == nullptr
            ? "at " + place(t.site)
            : std::string("at ") + t.collective->name + ", " + place(t.site);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == what; });
    if (group == groups.end()) group = groups.insert(groups.end(), {what, {}});
    group->second.push_back(t.linear);
  }
  std::string text;
  for (const auto& [what, indices] : groups) {
    if (!text.empty()) text += "; ";
    text += list_threads(indices) + ": " + what;
  }
  return text.empty() ? "there are no more threads" : text;
}

Index3 block_coordinates(unsigned n, unsigned rank) {
  const unsigned block = block_in_grid(n, rank);
  return {block % grid_size.x, block / grid_size.x % grid_size.y, block / grid_size.x / grid_size.y};
}

std::uint64_t turns_taken = 0;

struct EngineActor {
  std::string name;
  Kind in_flight;
};
PerBlock<std::vector<EngineActor>> engine_actors;  // of the running block, from clocks.warps on
unsigned turn = 0;  // the warp that is next, where blocks take turns
Parked<unsigned> parked_turn{turn};

bool can_run(unsigned w) {
  const Thread* const first = &threads[w * warp_size];
  return std::any_of(first, first + warps[w].lanes, [](const Thread& t) { return t.state == State::runnable; });
}

}  // namespace

// Nobody can go on: says who waits for whom.
void report_deadlock() {
  for (unsigned place = 0; place < barriers.size(); ++place) {
    const unsigned id = place % barriers_per_block, rank = place / barriers_per_block;
    const Barrier& b = barriers[place];
    if (b.arrived == 0) continue;
    auto waits_here = [id, rank](const Thread& t) {
      return t.rank != rank || (t.state == State::at_barrier && t.barrier == id);
    };
    FINDING(barrier_not_reached, b.site,
            "barrier %u of block %u waits for %u threads and %u have come, the rest never do (%s)", id,
            block_in_grid(block_index, rank), b.expected, b.arrived, describe_others([&](const Thread& t) { return !waits_here(t); }).c_str());
  }
  for (unsigned w = 0; w < warp_count; ++w) {
    for (unsigned lane = 0; lane < warps[w].lanes; ++lane) {
      const Thread& t = threads[w * warp_size + lane];
      if (t.state != State::gathering) continue;
      auto with_me = [&](const Thread& o) {
        return o.state == State::gathering && o.collective == t.collective && o.mask == t.mask;
      };
      // One finding for each group of lanes: its first lane speaks.
      bool first = true;
      for (unsigned l = 0; l < lane; ++l) first = first && !with_me(threads[w * warp_size + l]);
      if (!first) continue;
      const std::string others = describe_others([&](const Thread& o) { return o.warp == t.warp && !with_me(o); });
      const Kind kind = t.collective->barrier ? Kind::barrier_not_reached : Kind::missing_lanes;
      if (count_finding(kind, t.site)) {
        char lanes[32] = "every lane";
        if (t.mask != 0) std::snprintf(lanes, sizeof lanes, "the lanes %#010x", t.mask);
        write_finding(kind, t.site, "%s needs %s of warp %u of block %u, and some never reach it (%s)",
                      t.collective->name, lanes, w % block_warps(), block_in_grid(block_index, w / block_warps()), others.c_str());
      }
    }
  }
}

const Thread* waiting_thread() {
  const auto waits = [](const Thread& t) { return t.spins && t.state != State::exited; };
  const auto found = std::find_if(threads.begin(), threads.end(), waits);
  return found == threads.end() ? nullptr : &*found;
}

void start_blocks(Epoch first) {
  clocks.start_block(warp_count, first);
  engine_actors.clear();
  turn = 0;
  idle_polls = 0;
  start_block_shared();
  start_block_global();
  start_block_order();
  barriers.assign(std::size_t{barriers_per_block} * cluster_blocks(), Barrier{});
  for (unsigned place = 0; place < launch.threads * cluster_blocks(); ++place) {
    const unsigned i = place % launch.threads, rank = place / launch.threads;
    const unsigned index = rank * block_warps() * warp_size + i;
    const Index3 block = block_coordinates(block_index, rank);
    Thread& t = threads[index];
    t.index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
    t.block = block;
    t.linear = index;
    t.rank = rank;
    t.warp = index / warp_size;
    t.lane = i % warp_size;
    t.who = who_of(t.warp, t.lane);
    t.state = State::runnable;
    t.polls = t.spins = false;
    t.site = 0;
    t.copies.clear();
    t.group = 0;
    t.fences = 0;
    t.last_fences[0].count = t.last_fences[1].count = 0;
  }
  for (unsigned w = 0; w < warp_count; ++w) {
    warps[w].lanes = std::min(warp_size, launch.threads - w % block_warps() * warp_size);
  }
  ptx::start_block();
}

namespace {

constexpr unsigned patience_of_pollers = 2048;  // of each warp: more questions in vain are a deadlock
constexpr unsigned patience_of_turns = 8;       // of each warp: more are a reason to let others run
constexpr unsigned patience_where_warps_meet = 8;  // times as many turns where barriers stand in between
constexpr unsigned patience_of_loops = 256;     // of long loops
constexpr unsigned furthest = 24;               // waits that a warp may be ahead in one round

bool all_exited() {
  return std::all_of(threads.begin(), threads.end(), [](const Thread& t) { return t.state == State::exited; });
}

}  // namespace

bool wait_in_vain(unsigned resident) {
  return idle_polls.vain() > std::uint64_t{patience_of_pollers} * warp_count * std::max(1u, resident / 8);
}

// With a seed, warps take their turns in random order, some running far ahead of others.
Turn run_blocks(bool others) {
  unsigned turns[max_warps];
  for (unsigned w = 0; w < warp_count; ++w) turns[w] = w;
  const bool random = launch.order_seed != 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (unsigned w = warp_count; random && w > 1; --w) std::swap(turns[w - 1], turns[random_below(w)]);
    for (unsigned i = 0; i < warp_count; ++i) {
      const unsigned w = turns[i];
      const unsigned times = random ? 1 + random_below(furthest) : 1;
      for (unsigned time = 0; time < times; ++time) {
        if (!can_run(w)) break;
        ptx::run_warp(w);
        progress = true;
      }
    }
    if (!others) {
      if (idle_polls > patience_of_pollers * warp_count) break;
    } else if (idle_polls > patience_of_turns * warp_count * (idle_polls.met() ? patience_where_warps_meet : 1) ||
               idle_polls.laps() > patience_of_loops) {
      self = nullptr;
      return Turn::waits;
    }
  }
  self = nullptr;
  return all_exited() ? Turn::ended : Turn::stuck;
}

// One warp up to its next access of memory.
Turn run_step() {
  for (unsigned i = 0; i < warp_count; ++i) {
    const unsigned w = seeded() ? random_below(warp_count) : turn++ % warp_count;
    if (!can_run(w)) continue;
    ptx::run_warp(w);
    self = nullptr;
    return Turn::waits;
  }
  for (unsigned w = 0; w < warp_count; ++w) {
    if (can_run(w)) return Turn::waits;
  }
  return all_exited() ? Turn::ended : Turn::stuck;
}

// Counter-based (the finalizer of MurmurHash3): turns depend on nothing but the seed.
unsigned random_below(unsigned count) {
  std::uint64_t x = launch.order_seed * 0x9e3779b97f4a7c15u + ++turns_taken;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  return static_cast<unsigned>((x ^ x >> 33) % count);
}

unsigned add_actor(std::string name, Kind in_flight) {
  const unsigned actor = clocks.add_actor();
  engine_actors.resize(actor - clocks.warps);
  engine_actors.push_back({std::move(name), in_flight});
  return actor;
}

Kind in_flight_kind(unsigned actor) {
  const unsigned index = actor - clocks.warps;
  return index < engine_actors.size() ? engine_actors[index].in_flight : Kind::shared_race;
}

std::string describe(Who who, unsigned block) {
  if (block == block_index && warp_of(who) >= clocks.warps) {
    const unsigned index = warp_of(who) - clocks.warps;
    if (index < engine_actors.size()) return engine_actors[index].name;
  }
  char text[128];
  const Index3 b = block_coordinates(block, rank_of(who));
  const unsigned warp = warp_of(who) % block_warps();
  if (lane_of(who) > whole_warp) {
    const std::uint32_t lanes = lanes_of(who);
    std::snprintf(text, sizeof text, "lanes %d to %d of warp %u of block (%u, %u, %u)", std::countr_zero(lanes),
                  31 - std::countl_zero(lanes), warp, b.x, b.y, b.z);
  } else if (lane_of(who) == whole_warp) {
    std::snprintf(text, sizeof text, "warp %u of block (%u, %u, %u)", warp, b.x, b.y, b.z);
  } else {
    const unsigned i = warp * warp_size + lane_of(who);
    std::snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", i % block_size.x,
                  i / block_size.x % block_size.y, i / block_size.x / block_size.y, b.x, b.y, b.z);
  }
  return text;
}

unsigned block_in_grid(unsigned n, unsigned rank) {
  const Index3 c = launch.cluster;
  const unsigned units = grid_size.x * grid_size.y * grid_size.z / cluster_blocks();
  const unsigned unit = launch.blocks.empty() ? n % units : launch.blocks[n % launch.blocks.size()];
  const unsigned wide = grid_size.x / c.x, high = grid_size.y / c.y;
  const unsigned x = unit % wide * c.x + rank % c.x;
  const unsigned y = unit / wide % high * c.y + rank / c.x % c.y;
  const unsigned z = unit / wide / high * c.z + rank / c.x / c.y;
  return (z * grid_size.y + y) * grid_size.x + x;
}

// Chosen blocks become the clusters that hold them.
void choose_clusters() {
  const Index3 c = launch.cluster;
  const unsigned wide = grid_size.x / c.x, high = grid_size.y / c.y;
  std::vector<unsigned> clusters;
  for (const unsigned block : launch.blocks) {
    const unsigned x = block % grid_size.x, y = block / grid_size.x % grid_size.y, z = block / grid_size.x / grid_size.y;
    const unsigned unit = (z / c.z * high + y / c.y) * wide + x / c.x;
    if (std::find(clusters.begin(), clusters.end(), unit) == clusters.end()) clusters.push_back(unit);
  }
  launch.blocks = clusters;
}

namespace {

bool has_exited(unsigned w) {
  const Thread* const first = &threads[w * warp_size];
  return std::all_of(first, first + warps[w].lanes, [](const Thread& t) { return t.state == State::exited; });
}

bool is_complete(const Barrier& b, unsigned rank) {
  unsigned there = b.arrived;
  for (unsigned w = rank * block_warps(); b.whole && w < (rank + 1) * block_warps(); ++w) {
    if (has_exited(w)) there += warps[w].lanes;
  }
  return there >= b.expected;
}

// A barrier of the whole block goes on without threads that have exited: the hardware does so since Volta. Who has gone
// around it to something behind it has done that without having waited.
void report_exited(const Barrier& b, unsigned id, unsigned rank) {
  constexpr unsigned last_note = 75;  // of architectures
  const auto exited = [rank](const Thread& t) { return t.rank == rank && t.state == State::exited && t.lane < warps[t.warp].lanes; };
  const auto skipped = [&](const Thread& t) { return exited(t) && skipped_barrier(t, b.site); };
  if (std::any_of(threads.begin(), threads.end(), skipped)) {
    FINDING(barrier_not_reached, b.site, "barrier %u of block %u is gone around by threads that go on behind it (%s)", id,
            block_in_grid(block_index, rank), describe_others(skipped).c_str());
  } else if (ptx::program.target != 0 && ptx::program.target <= last_note && std::any_of(threads.begin(), threads.end(), exited)) {
    FINDING_OF_TWO(barrier_not_reached, Grade::note, b.site, SiteIndex{0},
                   "barrier %u of block %u does not wait for threads that have exited, on which only Volta and later GPUs "
                   "may be relied (%s)", id, block_in_grid(block_index, rank), describe_others(exited).c_str());
  }
}

// The warps that go on.
std::vector<unsigned> complete(Barrier& b, unsigned id, unsigned rank) {
  if (b.whole) report_exited(b, id, rank);
  for (const unsigned v : b.waiting) {
    clocks.known[v].join(b.joined);
    for (unsigned lane = 0; lane < warps[v].lanes; ++lane) {
      Thread& t = threads[v * warp_size + lane];
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

bool arrive_at_barrier(unsigned w, int id, int count, bool waits, std::vector<unsigned>& completed) {
  const bool whole_block = count == all_threads;
  if (id < 0 || id >= static_cast<int>(barriers_per_block) ||
      (!whole_block && (count <= 0 || count % static_cast<int>(warp_size) != 0))) {
    FINDING(invalid_argument, self->site, "barrier %d of %d threads: ids are 0 to 15, thread counts multiples of 32",
            id, count);
    return false;
  }
  Barrier& b = barriers[w / block_warps() * barriers_per_block + static_cast<unsigned>(id)];
  const unsigned expected = whole_block ? launch.threads : static_cast<unsigned>(count);
  if (b.arrived == 0) {
    b.expected = expected;
    b.whole = whole_block;
    b.site = self->site;
  } else if (b.expected != expected) {
    FINDING(invalid_argument, self->site, "barrier %d is used with %u and with %u threads at a time", id, b.expected,
            expected);
  }
  b.whole = b.whole && whole_block;
  idle_polls.meet();
  b.arrived += whole_block ? warps[w].lanes : warp_size;
  const Epoch arrival = clocks.now[w];
  clocks.advance(w);
  // In another order of the warps this arrival would have been one of the time before.
  for (const auto& [v, epoch] : b.before) {
    if (v != w && clocks.seen(w, v) < epoch) {
      FINDING(invalid_argument, self->site,
              "%s may come to barrier %d before warp %u, for which the barrier has completed already, does: nothing "
              "orders the two", describe(who_of(w, whole_warp), block_index).c_str(), id, v % block_warps());
      break;
    }
  }
  b.arrivals.emplace_back(w, arrival);
  b.joined.join(clocks.known[w]);
  if (waits) {
    b.waiting.push_back(w);
    for (unsigned lane = 0; lane < warps[w].lanes; ++lane) {
      Thread& t = threads[w * warp_size + lane];
      if (t.state == State::exited) continue;
      t.state = State::at_barrier;
      t.barrier = static_cast<unsigned>(id);
    }
  }
  if (is_complete(b, w / block_warps())) completed = complete(b, static_cast<unsigned>(id), w / block_warps());
  return true;
}

std::vector<std::pair<int, std::vector<unsigned>>> leave_barriers(unsigned w) {
  std::vector<std::pair<int, std::vector<unsigned>>> completed;
  const unsigned rank = w / block_warps();
  for (unsigned id = 0; id < barriers_per_block; ++id) {
    Barrier& b = barriers[rank * barriers_per_block + id];
    if (b.arrived == 0 || !is_complete(b, rank)) continue;
    completed.emplace_back(static_cast<int>(id), complete(b, id, rank));
  }
  return completed;
}

}  // namespace autosched::emulator
