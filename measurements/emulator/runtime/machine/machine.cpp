// The state that all of the machine shares: the launch, who runs, and what actors and epochs are called.
#include "machine/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace autosched::emulator {

Launch launch;
PerBlock<Clocks> clocks;
PerBlock<std::vector<Thread>> threads;
unsigned warp_lanes[max_warps] = {};
unsigned warp_count = 0;
Thread* self = nullptr;
unsigned block_index = 0;
IdlePolls idle_polls;

Index3 block_size{1, 1, 1}, grid_size{1, 1, 1};
Units units_of_launch;

namespace {

Parked<unsigned> parked_index{block_index};
std::uint64_t turns_taken = 0;

struct EngineActor {
  std::string name;
  Kind in_flight;
};
PerBlock<std::vector<EngineActor>> engine_actors;  // of the running block, from clocks.warps on
// A stretch of epochs: whose they are.
struct Stretch {
  Epoch first;
  unsigned block;
};
std::vector<Stretch> stretches;

}  // namespace

void* reserve_zeroed(std::size_t bytes) {
  void* p = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("emulator: cannot reserve memory");
    std::exit(1);
  }
#ifdef MADV_HUGEPAGE
  // The books of a launch are of megabytes, and a fault for each 4 KiB of them takes longer than what is done there. A
  // sparse launch touches little of much.
  if (!launch.sparse) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return p;
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

Index3 block_coordinates(unsigned n, unsigned rank) {
  const unsigned block = block_in_grid(n, rank);
  return {block % grid_size.x, block / grid_size.x % grid_size.y, block / grid_size.x / grid_size.y};
}

void start_clocks(Epoch first) {
  clocks.start_block(warp_count, first);
  engine_actors.clear();
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

void begin_stretch(Epoch first, unsigned block) { stretches.push_back({first, block}); }

unsigned block_of_epoch(Epoch epoch) {
  // What is asked about follows one another, as the elements of a tile do that another block has left.
  static std::size_t last = 0;
  if (last + 1 < stretches.size() && stretches[last].first <= epoch && epoch < stretches[last + 1].first) {
    return stretches[last].block;
  }
  const auto after = std::upper_bound(stretches.begin(), stretches.end(), epoch,
                                      [](Epoch e, const Stretch& s) { return e < s.first; });
  if (after == stretches.begin()) return ~0u;
  last = static_cast<std::size_t>(after - stretches.begin()) - 1;
  return stretches[last].block;
}

}  // namespace autosched::emulator
