// The state of the emulated machine: the launch, the running blocks with their warps and threads, and references to the
// state of other components.
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

constexpr std::uint32_t low_word_of_windows = 0x5a000000u;  // start of generic addresses of shared and local memory

constexpr int all_threads = -1;  // thread count of a barrier of the whole block

// A cp.async copy in flight to shared memory.
struct AsyncCopy {
  unsigned shared;
  int bytes;
  unsigned group;
  SiteIndex site;
  unsigned char data[16];
};

// A fence.acq_rel.gpu, with the events that happened before it.
struct Fence {
  Epoch epoch = 0;          // epoch of the fencing thread's warp
  std::uint32_t count = 0;  // number of fences of that thread so far, including this fence
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
  // Indices among all threads that run together: index in `threads`, warp, lane, and rank of the block in the cluster.
  unsigned linear = 0, warp = 0, lane = 0, rank = 0;
  Agent agent = 0;
  State state = State::exited;
  SiteIndex site = 0;  // site of the last instruction
  bool waited = false;  // in a dependent launch: the thread has waited for earlier launches
  bool polls = false;  // the thread waits by polling an mbarrier
  bool spins = false;  // the thread's last poll of memory returned the same value as before
  std::uint64_t spin_address = 0;  // address of that poll of memory
  SiteIndex spin_site = 0;         // site of that poll of memory

  const Collective* collective = nullptr;  // the collective at which the thread waits in state gathering
  unsigned mask = 0;  // if the state is `gathering`: the lanes for which the thread waits; 0: the whole warp
  unsigned barrier = 0;  // the barrier at which the thread waits in state at_barrier

  std::vector<AsyncCopy> copies;
  unsigned group = 0;  // index of the open cp.async group

  std::uint32_t fences = 0;
  Fence last_fences[2];  // the newest fence comes first
};

struct Launch {
  unsigned launches = 1;  // successive launches of the kernel, which together compute the outputs
  // repetitions of all these launches; each continues with the memory of the previous repetition
  unsigned calls = 1;
  Epoch began = 0;        // first epoch of the running launch; all earlier epochs are ordered before it
  unsigned threads = 0;  // per block
  Index3 cluster{1, 1, 1};  // size of a cluster, whose blocks run together
  bool clustered = false;   // the launch or the kernel specifies clusters, possibly of a single block
  unsigned dynamic_shared_bytes = 0;
  bool uses_reserved_shared = false;  // the kernel reads the address of the reserved kilobyte of shared memory
  // bytes of the narrowest global store: adjacent elements of this size may be written by different threads
  unsigned narrowest_store = 16;
  bool check = true;  // use shadow memory to report races and uninitialised reads
  bool count = false;  // count executed instructions, for time estimates
  bool sparse = false;  // allocate pages of buffers and generate inputs only when they are accessed
  std::vector<unsigned> blocks;  // blocks to run, in this order; empty: the whole grid, ascending
  std::uint64_t order_seed = 0;  // seed of the order in which warps and lanes run; 0: ascending order
  unsigned resident = 128;  // maximum number of resident blocks (or clusters), which have started and not ended
  bool interleaved = false;  // blocks alternate at each access to global memory
  bool cooperative = false;  // all blocks of the grid must be resident at the same time
  bool dependent = false;    // the launch may start before earlier launches in its stream have ended
};

// The blocks (or clusters) of the running launch, with indices in the order in which they start.
struct Units {
  unsigned first = 0, begun = 0, all = 0;  // begun: number of blocks that have started or were cancelled

  bool left() const { return begun < all; }
  unsigned take() { return first + begun++; }
};

// The file to which the launch's copy of a program's memory is written at the end of the launch.
struct ProgramMemory {
  int file = -1;  // file descriptor; -1: the copy is not written back
  std::uint64_t begin = 0;
};

// An actor without lanes: its name in messages, and the kind of finding if memory is changed while the actor still
// reads it.
struct EngineActor {
  std::string name;
  Kind in_flight;
};

// A range of epochs and the block that owns it.
struct Stretch {
  Epoch first;
  unsigned block;
};

struct Copied;
struct Counting;
struct TensorMemories;
struct Buffers;
struct Heap;
struct WrittenMaps;
struct SharedMemory;
struct EngineUses;
struct Dependence;
struct BlockOrder;
struct Barriers;
struct DroppedValues;
struct NearlyEqualStores;
struct Residents;
namespace global_shadow {
struct GlobalUses;
struct GlobalOrder;
}  // namespace global_shadow
namespace shared_shadow {
struct SharedUses;
}
namespace ptx {
struct Instruction;
struct Program;
struct ProgramText;
struct Warps;
struct Executed;
struct UnknownValues;
struct Copies;
struct Textures;
struct Cluster;
struct BulkCopies;
struct LaunchControl;
struct Mbarriers;
struct TensorLoads;
struct Wgmmas;
struct Collectives;
}  // namespace ptx

// All state that changes while a launch runs. A component that a higher layer defines is a reference to an incomplete
// type (machine/part.hpp), so that this header includes nothing from higher layers. A machine and its parts live until
// the process ends.
struct Machine {
  Machine();
  Machine(const Machine&) = delete;

  // The launch, and the threads that run.
  Thread* self = nullptr;
  unsigned warp_count = 0;
  unsigned block_index = 0;  // number of blocks (or clusters) that started before the running one, over all launches
  IdlePolls idle_polls;
  Launch launch;
  Index3 block_size{1, 1, 1}, grid_size{1, 1, 1};
  Parking parking;
  PerBlock<std::vector<Thread>> threads{parking};
  PerBlock<Clocks> clocks{parking};
  unsigned warp_lanes[max_warps] = {};  // number of existing lanes of each warp
  Report report;

  // Memory.
  global_shadow::GlobalUses& global_uses;
  shared_shadow::SharedUses& shared_uses;
  SharedMemory& shared_memory;
  EngineUses& engine_uses;
  Buffers& buffers;
  Heap& heap;
  WrittenMaps& written_maps;
  Dependence& dependence;
  TensorMemories& tensor_memories;
  Counting& counting;
  const Copied* copied = nullptr;  // locations of the copied values that the current store writes
  int inputs_file = -1;
  ProgramMemory program_memory;
  // Index of the poison pattern that fills undefined memory. 0: none. 1 to 7: constant bytes, including very large and
  // small numbers and NaN. Larger numbers: pseudorandom bytes (measurements/emulator/effect.py).
  unsigned poison = 0;
  std::uint64_t poison_state = 0;
  // Grade of findings about missing fences and waits that the PTX ISA requires, but whose absence has no known effect
  // on a GPU. Compilers other than NVIDIA's omit them, so the findings are notes for code from such compilers.
  Grade grade_of_missing_fences = Grade::fault;

  // Happens-before.
  BlockOrder& block_order;
  global_shadow::GlobalOrder& global_order;

  // Instructions.
  ptx::Program& program;
  ptx::ProgramText& program_text;
  ptx::Warps& warps;
  ptx::Executed& executed;
  const ptx::Instruction* loading = nullptr;  // the load that is currently executed
  DroppedValues& dropped;
  NearlyEqualStores& nearly_equal_stores;
  ptx::UnknownValues& unknown_values;
  ptx::Copies& copies;
  ptx::Textures& textures;
  Barriers& barriers;
  ptx::Cluster& cluster;
  ptx::BulkCopies& bulk_copies;
  ptx::LaunchControl& launch_control;
  ptx::Mbarriers& mbarriers;
  ptx::TensorLoads& tensor_loads;
  ptx::Wgmmas& wgmmas;
  ptx::Collectives& collectives;
  std::uint64_t ticks = 0;        // value of the clock registers
  std::size_t printed_bytes = 0;  // number of bytes that printf has written

  // Scheduling.
  Units units;
  Residents& residents;
  unsigned turn = 0;  // the warp that runs next, if blocks alternate
  std::uint64_t turns_taken = 0;
  // engines of the running blocks; the first one has the actor number clocks.warps
  PerBlock<std::vector<EngineActor>> engine_actors{parking};
  std::vector<Stretch> stretches;
  std::size_t last_stretch = 0;  // index of the stretch that the last look-up found
  Parked<unsigned> parked_index{parking, block_index};
  Parked<unsigned> parked_turn{parking, turn};
};

// The linear grid index of the n-th block to run, or of block `rank` in the n-th cluster.
unsigned block_in_grid(Machine& machine, unsigned n, unsigned rank);
inline unsigned cluster_blocks(Machine& machine) {
  return machine.launch.cluster.x * machine.launch.cluster.y * machine.launch.cluster.z;
}
inline unsigned block_warps(Machine& machine) { return (machine.launch.threads + warp_size - 1) / warp_size; }
inline unsigned rank_of(Machine& machine, Agent agent) {
  return warp_of(agent) < machine.warp_count ? warp_of(agent) / block_warps(machine) : 0;
}

Index3 block_coordinates(Machine& machine, unsigned n, unsigned rank);

// Describes a thread or a warp of the block (or cluster) `block`: "thread (1, 0, 0) of block (0, 0, 0)", "warp 1 of
// block ...".
std::string describe(Machine& machine, Agent agent, unsigned block);
inline std::string describe_self(Machine& machine) {
  return describe(machine, machine.self->agent, machine.block_index);
}
// Records that the epochs from `first` on, up to the next call of this function, belong to a block (or cluster).
void begin_stretch(Machine& machine, Epoch first, unsigned block);
// The block to which an epoch belongs.
unsigned block_of_epoch(Machine& machine, Epoch epoch);
// True if an epoch belongs to the running blocks.
inline bool of_running(Machine& machine, Epoch epoch) {
  return epoch >= machine.clocks.resumed ||
         (epoch >= machine.clocks.first && block_of_epoch(machine, epoch) == machine.block_index);
}

// Reserves zeroed memory. Pages are allocated at their first access.
void* reserve_zeroed(Machine& machine, std::size_t bytes);

// Starts the clocks of blocks. Their epochs are numbered from `first` on. Initially, their warps are the only actors.
void start_clocks(Machine& machine, Epoch first);
unsigned add_actor(Machine& machine, std::string name, Kind in_flight);
Kind in_flight_kind(Machine& machine, unsigned actor);

// A random number below `count`, which determines the order of execution; 0 if `count` is 0 or 1.
unsigned random_below(Machine& machine, unsigned count);
inline bool seeded(Machine& machine) { return machine.launch.order_seed != 0; }

}  // namespace autosched::emulator
