// State of the whole machine: the launch, the running threads, the names of actors, and the blocks to which epochs
// belong.
#include "machine/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace autosched::emulator {

Machine::Machine()
    : global_uses(make_part<global_shadow::GlobalUses>(parking)),
      shared_uses(make_part<shared_shadow::SharedUses>(parking)),
      shared_memory(make_part<SharedMemory>(parking)),
      engine_uses(make_part<EngineUses>(parking)),
      buffers(make_part<Buffers>(parking)),
      heap(make_part<Heap>(parking)),
      written_maps(make_part<WrittenMaps>(parking)),
      dependence(make_part<Dependence>(parking)),
      tensor_memories(make_part<TensorMemories>(parking)),
      counting(make_part<Counting>(parking)),
      block_order(make_part<BlockOrder>(parking)),
      global_order(make_part<global_shadow::GlobalOrder>(parking)),
      program(make_part<ptx::Program>(parking)),
      program_text(make_part<ptx::ProgramText>(parking)),
      warps(make_part<ptx::Warps>(parking)),
      executed(make_part<ptx::Executed>(parking)),
      dropped(make_part<DroppedValues>(parking)),
      nearly_equal_stores(make_part<NearlyEqualStores>(parking)),
      unknown_values(make_part<ptx::UnknownValues>(parking)),
      copies(make_part<ptx::Copies>(parking)),
      textures(make_part<ptx::Textures>(parking)),
      barriers(make_part<Barriers>(parking)),
      cluster(make_part<ptx::Cluster>(parking)),
      bulk_copies(make_part<ptx::BulkCopies>(parking)),
      launch_control(make_part<ptx::LaunchControl>(parking)),
      mbarriers(make_part<ptx::Mbarriers>(parking)),
      tensor_loads(make_part<ptx::TensorLoads>(parking)),
      wgmmas(make_part<ptx::Wgmmas>(parking)),
      collectives(make_part<ptx::Collectives>(parking)),
      residents(make_part<Residents>(parking)) {}

void* reserve_zeroed(Machine& machine, std::size_t bytes) {
  void* p = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("emulator: cannot reserve memory");
    std::exit(1);
  }
#ifdef MADV_HUGEPAGE
  // Uses huge pages, because a launch's bookkeeping takes megabytes, and page faults for pages of 4 KiB would dominate
  // its cost. Sparse launches use small pages, because they touch little of a large range.
  if (!machine.launch.sparse) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return p;
}

// A counter-based random number generator (the finalizer of MurmurHash3), so that schedules depend only on the seed.
unsigned random_below(Machine& machine, unsigned count) {
  std::uint64_t x = machine.launch.order_seed * 0x9e3779b97f4a7c15u + ++machine.turns_taken;
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  return static_cast<unsigned>((x ^ x >> 33) % count);
}

unsigned add_actor(Machine& machine, std::string name, Kind in_flight) {
  const unsigned actor = machine.clocks.add_actor();
  machine.engine_actors.resize(actor - machine.clocks.warps);
  machine.engine_actors.push_back({std::move(name), in_flight});
  return actor;
}

Kind in_flight_kind(Machine& machine, unsigned actor) {
  const unsigned index = actor - machine.clocks.warps;
  return index < machine.engine_actors.size() ? machine.engine_actors[index].in_flight : Kind::shared_race;
}

Index3 block_coordinates(Machine& machine, unsigned n, unsigned rank) {
  const unsigned block = block_in_grid(machine, n, rank);
  return {block % machine.grid_size.x, block / machine.grid_size.x % machine.grid_size.y,
          block / machine.grid_size.x / machine.grid_size.y};
}

void start_clocks(Machine& machine, Epoch first) {
  machine.clocks.start_block(machine.warp_count, first);
  machine.engine_actors.clear();
}

std::string describe(Machine& machine, Agent agent, unsigned block) {
  if (block == machine.block_index && warp_of(agent) >= machine.clocks.warps) {
    const unsigned index = warp_of(agent) - machine.clocks.warps;
    if (index < machine.engine_actors.size()) return machine.engine_actors[index].name;
  }
  char text[128];
  const Index3 b = block_coordinates(machine, block, rank_of(machine, agent));
  const unsigned warp = warp_of(agent) % block_warps(machine);
  if (lane_of(agent) > whole_warp) {
    const std::uint32_t lanes = lanes_of(agent);
    std::snprintf(text, sizeof text, "lanes %d to %d of warp %u of block (%u, %u, %u)", std::countr_zero(lanes),
                  31 - std::countl_zero(lanes), warp, b.x, b.y, b.z);
  } else if (lane_of(agent) == whole_warp) {
    std::snprintf(text, sizeof text, "warp %u of block (%u, %u, %u)", warp, b.x, b.y, b.z);
  } else {
    const unsigned i = warp * warp_size + lane_of(agent);
    std::snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", i % machine.block_size.x,
                  i / machine.block_size.x % machine.block_size.y, i / machine.block_size.x / machine.block_size.y, b.x, b.y, b.z);
  }
  return text;
}

unsigned block_in_grid(Machine& machine, unsigned n, unsigned rank) {
  const Index3 c = machine.launch.cluster;
  const unsigned units = machine.grid_size.x * machine.grid_size.y * machine.grid_size.z / cluster_blocks(machine);
  const unsigned unit = machine.launch.blocks.empty() ? n % units : machine.launch.blocks[n % machine.launch.blocks.size()];
  const unsigned wide = machine.grid_size.x / c.x, high = machine.grid_size.y / c.y;
  const unsigned x = unit % wide * c.x + rank % c.x;
  const unsigned y = unit / wide % high * c.y + rank / c.x % c.y;
  const unsigned z = unit / wide / high * c.z + rank / c.x / c.y;
  return (z * machine.grid_size.y + y) * machine.grid_size.x + x;
}

void begin_stretch(Machine& machine, Epoch first, unsigned block) { machine.stretches.push_back({first, block}); }

unsigned block_of_epoch(Machine& machine, Epoch epoch) {
  // Consecutive queries usually have the same result, for example for elements of a tile written by one block.
  if (machine.last_stretch + 1 < machine.stretches.size() && machine.stretches[machine.last_stretch].first <= epoch &&
      epoch < machine.stretches[machine.last_stretch + 1].first) {
    return machine.stretches[machine.last_stretch].block;
  }
  const auto after = std::upper_bound(machine.stretches.begin(), machine.stretches.end(), epoch,
                                      [](Epoch e, const Stretch& s) { return e < s.first; });
  if (after == machine.stretches.begin()) return ~0u;
  machine.last_stretch = static_cast<std::size_t>(after - machine.stretches.begin()) - 1;
  return machine.stretches[machine.last_stretch].block;
}

}  // namespace autosched::emulator
