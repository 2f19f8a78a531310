// The state of the emulated machine: one launch, one resident block, its warps and threads.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "machine/report.hpp"
#include "machine/idle_polls.hpp"
#include "machine/parked.hpp"
#include "machine/clocks.hpp"

namespace autosched::emulator {

struct Index3 {
  unsigned x, y, z;
};
extern Index3 block_size, grid_size;

constexpr int all_threads = -1;  // as the count of a barrier

// Bytes on their way into shared memory.
struct AsyncCopy {
  unsigned shared;
  int bytes;
  unsigned group;
  SiteIndex site;
  unsigned char data[16];
};

// What a fence.acq_rel.gpu covers: everything that happened before it.
struct Fence {
  Epoch epoch = 0;          // of the fencing thread's warp
  std::uint32_t count = 0;  // fences of that thread so far, this one included
  View seen;
};

// A warp-wide operation that a lane has reached.
struct Collective {
  const char* name;
  bool barrier;
};

enum class State { runnable, gathering, at_barrier, exited };

struct Thread {
  Index3 index{}, block{};  // threadIdx, blockIdx
  // Of all that run together: its place among `threads`, its warp, and the rank of its block in the cluster.
  unsigned linear = 0, warp = 0, lane = 0, rank = 0;
  Who who = 0;
  State state = State::exited;
  SiteIndex site = 0;  // of the last instruction
  bool polls = false;  // waits by asking again and again
  bool spins = false;  // has got the same answer as before from where it asked last, in memory
  std::uint64_t asked = 0;
  SiteIndex asked_at = 0;

  const Collective* collective = nullptr;  // while gathering
  unsigned mask = 0;  // while gathering: the lanes that it waits for; 0: the whole warp
  unsigned barrier = 0;  // while at_barrier

  std::vector<AsyncCopy> copies;
  unsigned group = 0;  // the open cp.async group

  std::uint32_t fences = 0;
  Fence last_fences[2];  // newest first
};

struct Launch {
  unsigned launches = 1;  // of the kernel, one after another: together they compute the outputs
  unsigned calls = 1;     // of all that, each on what the one before has left
  Epoch began = 0;        // the running one: what came before is ordered
  unsigned threads = 0;  // of a block
  Index3 cluster{1, 1, 1};  // blocks that run together
  bool clustered = false;   // the launch or the kernel says so, be it one of a single block
  unsigned dynamic_shared_bytes = 0;
  bool uses_reserved_shared = false;  // the kernel asks where the reserved kilobyte of shared memory lies
  unsigned narrowest_store = 16;  // of the kernel, to global memory: the bytes of what two threads may own side by side
  bool check = true;  // shadow memory: races and initialisation
  bool count = false;  // what is executed, for estimates of time
  bool sparse = false;  // buffers are backed, and inputs made, where they are touched
  std::vector<unsigned> blocks;  // that run, in this order; none: all of the grid, ascending
  std::uint64_t order_seed = 0;  // of the turns of warps and lanes; 0: ascending
  unsigned resident = 128;  // blocks, or clusters, that may have begun and not ended
  bool interleaved = false;  // blocks take turns at each access of global memory
  bool cooperative = false;  // all blocks are resident
};

// The blocks (or clusters) of the launch that runs, in their order.
struct Units {
  unsigned first = 0, begun = 0, all = 0;  // begun: or canceled

  bool left() const { return begun < all; }
  unsigned take() { return first + begun++; }
};
extern Launch launch;
extern Units units_of_launch;
extern PerBlock<Clocks> clocks;
extern PerBlock<std::vector<Thread>> threads;
extern unsigned warp_lanes[max_warps];  // how many lanes of each warp exist
extern unsigned warp_count;
extern Thread* self;
extern unsigned block_index;  // how many blocks, or clusters, ran before the running one, through all launches
// The linear index in the grid of the n-th block to run: that of `rank` in the n-th cluster.
unsigned block_in_grid(unsigned n, unsigned rank);
inline unsigned cluster_blocks() { return launch.cluster.x * launch.cluster.y * launch.cluster.z; }
inline unsigned block_warps() { return (launch.threads + warp_size - 1) / warp_size; }
inline unsigned rank_of(Who who) { return warp_of(who) < warp_count ? warp_of(who) / block_warps() : 0; }

Index3 block_coordinates(unsigned n, unsigned rank);

// "thread (1, 0, 0) of block (0, 0, 0)" or "warp 1 of block ..." of a thread of block `block`.
std::string describe(Who who, unsigned block);
inline std::string describe_self() { return describe(self->who, block_index); }
// Epochs from `first` on, up to the next stretch, are those of a block (or cluster).
void begin_stretch(Epoch first, unsigned block);
// The block to which an epoch belongs.
unsigned block_of_epoch(Epoch epoch);
// Whether an epoch is one of the running blocks.
inline bool of_running(Epoch epoch) {
  return epoch >= clocks.resumed || (epoch >= clocks.first && block_of_epoch(epoch) == block_index);
}

// Zeros, of which only what is touched takes memory.
void* reserve_zeroed(std::size_t bytes);

// An actor without lanes: what messages call it, and what it means that something it reads is changed.
// The clocks of blocks that start, in epochs from `first` on, without other actors than their warps.
void start_clocks(Epoch first);
unsigned add_actor(std::string name, Kind in_flight);
Kind in_flight_kind(unsigned actor);

// Random numbers of the launch's order; below 1: 0.
unsigned random_below(unsigned count);
inline bool seeded() { return launch.order_seed != 0; }

}  // namespace autosched::emulator
