// The state of the emulated machine: one launch, one resident block, its warps and threads.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "report.hpp"
#include "sched/idle_polls.hpp"
#include "sched/parked.hpp"
#include "sync/clocks.hpp"

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

struct Warp {
  unsigned lanes = 0;  // that exist
};

struct Launch {
  unsigned launches = 1;  // of the kernel, one after another: together they compute the outputs
  unsigned calls = 1;     // of all that, each on what the one before has left
  Epoch began = 0;        // the running one: what came before is ordered
  unsigned threads = 0;  // of a block
  Index3 cluster{1, 1, 1};  // blocks that run together
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

extern Launch launch;
extern Clocks clocks;
extern std::vector<Thread> threads;
extern Warp warps[max_warps];
extern unsigned warp_count;
extern Thread* self;
extern unsigned block_index;  // how many blocks, or clusters, ran before the running one, through all launches
// The linear index in the grid of the n-th block to run: that of `rank` in the n-th cluster.
unsigned block_in_grid(unsigned n, unsigned rank);
inline unsigned cluster_blocks() { return launch.cluster.x * launch.cluster.y * launch.cluster.z; }
inline unsigned block_warps() { return (launch.threads + warp_size - 1) / warp_size; }
inline unsigned rank_of(Who who) { return warp_of(who) < warp_count ? warp_of(who) / block_warps() : 0; }

// "thread (1, 0, 0) of block (0, 0, 0)" or "warp 1 of block ..." of a thread of block `block`.
std::string describe(Who who, unsigned block);
inline std::string describe_self() { return describe(self->who, block_index); }
// The block to which an epoch belongs.
unsigned block_of_epoch(Epoch epoch);
// Whether an epoch is one of the running blocks.
inline bool of_running(Epoch epoch) {
  return epoch >= clocks.resumed || (epoch >= clocks.first && block_of_epoch(epoch) == block_index);
}

// One of the running blocks that gets the answer that it knows; nullptr where there is none.
const Thread* waiting_thread();
// Runs the whole grid (residents.cpp). Returns false where the launch was ended by a deadlock.
bool run_grid();

// Zeros, of which only what is touched takes memory.
void* reserve_zeroed(std::size_t bytes);

constexpr unsigned reserved_shared_bytes = 1024;  // of the window, in front of the kernel's variables

// Shared memory (shared/memory.cpp). In a cluster an address says whose it is, as on hardware: the rank of the block in bits
// 24 and up, which kernels use (bit 24 tells the blocks of a pair apart) and which the descriptor of a matrix must leave out.
// The highest bit is set with it: an address without is of the running thread's block.
constexpr unsigned rank_shift = 24;
constexpr std::uint32_t names_block = 0x80000000u;
constexpr std::uint32_t address_in_block(std::uint32_t address, unsigned rank) {
  return (address & ((1u << rank_shift) - 1)) | names_block | rank << rank_shift;
}
std::uint32_t cluster_address(std::uint32_t address);  // the latter, of either
inline unsigned rank_of_address(std::uint32_t in_cluster) { return in_cluster >> rank_shift & 0x7fu; }
// Where a load read memory that nobody had written, in words; nullptr where none did.
struct Uninitialized {
  Kind kind;
  std::string text;
};
const Uninitialized* uninitialized_at(SiteIndex site);
void note_uninitialized(Kind kind, SiteIndex site, const std::function<std::string()>& text);
// What was read without a value, or decided upon without effect, where nothing has come of it: notes of the launch.
void report_unused_values();
// Something that a thread does to another block, which therefore must not have exited: by `who` in `epoch`.
void touch_block(unsigned rank, Who who, Epoch epoch);
void check_exits();
void name_shared(std::string name, unsigned begin, unsigned bytes);  // a static array
void reserve_shared(std::size_t static_bytes);
void allot_shared();  // to blocks that are not resident yet
std::size_t shared_books_bytes();  // what they take at most, with the books about it
void start_block_shared();
void end_block_shared();
unsigned dynamic_shared_address();
// Accesses of one thread, at self->site, that are not counted. What is out of bounds reads as 0xFF.
// ``lazily``: false where bytes were never written, or hold what was not, which is no fault before they are used.
bool read_shared(void* to, unsigned address, int bytes, const char* instruction, bool lazily = false);
void write_shared(unsigned address, const void* from, int bytes, const char* instruction);
// Which bits of shared memory are known, as a thread finds that did not read all of them lazily, and where the others
// come from; and that of what it has just written only these are.
SiteIndex known_shared(unsigned address, int bytes, unsigned char* bits);
void note_unknown_shared(unsigned address, int bytes, const unsigned char* bits, SiteIndex origin);
// Checks an atomic update and returns its bytes, or nullptr where they are out of bounds.
unsigned char* update_shared(unsigned address, int bytes, const char* instruction);
bool shared_window_holds(unsigned address, int bytes);
// Accesses of such sites do not race with each other: atomics, volatile and relaxed loads and stores.
void mark_strong(SiteIndex site);
void mark_volatile(SiteIndex site);

// What comes of a value that was read while another thread writes it (isa/dropped.cpp): where nothing does, the finding
// of that kind at self->site is a note. ``just_now``: what the reader has done before makes no difference.
void watch_read(Kind kind, SiteIndex load, Who reader, bool just_now, const char* address = nullptr, unsigned bytes = 0);
// The same of a read of shared memory before a write at self->site.
void watch_earlier_read(SiteIndex load, Who reader, Who writer, unsigned address);
// Such a finding is a fault for other reasons, too.
void confirm_race(Kind kind, SiteIndex site);
void settle_watched_reads();  // of the running blocks, which have ended
void lower_harmless_races();  // the launch has ended
// Whether a store stores nothing but constants.
bool stores_constant(SiteIndex store);
// Whether a decision depends on what an instruction loads, as on a flag.
bool decides(SiteIndex load);
// cp.async of one thread.
void start_copy(unsigned shared, const void* global, int bytes, int source_bytes);
void commit_copies();
void wait_copies(int in_flight);
enum class Access { read, write };
// Checks a warp-wide access and returns its bytes, or nullptr where they are out of bounds. ``value``: what is written.
// ``whole``: the read is a lazy one, and whether it found all known.
unsigned char* collective_shared_access(Access access, unsigned address, int bytes, int alignment,
                                        const char* instruction, const void* value = nullptr, bool* whole = nullptr);

// What the async proxy does, on behalf of the running thread: bulk copies and wgmma.
bool check_shared(unsigned address, int bytes, int alignment, const char* instruction);
// From now on until the copy lands the bytes may change at any moment.
bool start_bulk_write(unsigned address, int bytes);
void land_bulk_write(unsigned address, const unsigned char* data, int bytes, unsigned actor, Epoch epoch,
                     SiteIndex site);
// A read that is done when an actor's epoch is; nullptr where it is out of bounds.
const unsigned char* read_by_engine(unsigned address, int bytes, Who me, unsigned actor, Epoch epoch,
                                    const char* instruction);
void place_mbarrier(unsigned address, bool there);
// Whether the initialization of an mbarrier happened before (a finding where not) and, for the async proxy, whether a
// proxy fence is in between.
bool check_mbarrier_visible(unsigned address, const char* instruction, bool to_engine);
std::string describe_shared(unsigned address);
// An actor without lanes: what messages call it, and what it means that something it reads is changed.
unsigned add_actor(std::string name, Kind in_flight);
Kind in_flight_kind(unsigned actor);

// Random numbers of the launch's order; below 1: 0.
unsigned random_below(unsigned count);
inline bool seeded() { return launch.order_seed != 0; }

// Global memory (global/memory.cpp).
struct BufferSpec {
  enum class Role { input, output, workspace, variable, heap } role;  // the last two: of the program, not of the launch
  std::string name;
  std::size_t bytes;
  unsigned element_bytes;
  bool zeroed;
  // Of a sparse input: the floats are small integers, `bits` any bits but all ones (measurements/emulator/sparse.py).
  // `file`: what the job's file of inputs holds from byte `seed` on.
  enum class Content { none, f16, bf16, f32, e4m3, e5m2, bits, file } content = Content::none;
  std::uint64_t seed = 0;
  void* address = nullptr;  // where it lies already, in memory that others have mapped
  bool unset = false;       // a variable of the program that has no value of its own, until something writes it
  // Of each byte, whether it holds a value when the launch begins; nullptr: all do (`zeroed`), or none.
  unsigned char* defined = nullptr;
};
inline int inputs_file = -1;
// Reserves the buffers with guard zones; returns their addresses.
std::vector<void*> reserve_buffers(const std::vector<BufferSpec>& specs);
// Of each byte of a buffer with such flags: bit 0 where it holds a value now, bit 1 where the launch has written it.
void flag_written_bytes(std::size_t buffer, unsigned char* flags);
void start_block_global();
// Accesses of one thread, at self->site, that are not counted. ``relaxed``: it does not race with atomics.
// ``narrow``: of the scope of its block. ``known``: of a lazy read, which makes no finding where a byte holds no value, but
// says here which do, and returns whether all do.
bool read_global(void* to, const void* address, int bytes, const char* instruction, bool read_only, bool relaxed,
                 bool narrow = false, unsigned char* known = nullptr);
void write_global(void* address, const void* from, int bytes, const char* instruction, bool relaxed, bool narrow = false);
unsigned char* update_global(void* address, int bytes, const char* instruction, bool narrow = false);
void fence_device();

// Checks a read of global memory for cp.async; false where it is out of bounds.
bool check_global_read(const void* address, int bytes);
// What a bulk copy reads or writes, of any length and alignment. Out of bounds reads as 0xFF.
void read_global_bulk(void* to, const void* address, int bytes, const char* instruction);
void write_global_bulk(void* address, const void* from, int bytes, const char* instruction);
// What can only be seen after a call: outputs that nobody wrote, workspaces that must be zero again.
void check_after_call();
// The next call finds outputs as the first one did, and nothing that anybody has written in them and in workspaces; all
// else is as it was left.
void begin_call();
// Of a sparse launch: every page of an output that was written, as the number of the buffer (4 bytes), its first
// element (8), how many (4), the elements, and for each the block that wrote it last (4; all ones: none).
void write_touched_outputs(int file);
// "64 bytes after the end of `a`", for an address near a buffer; empty elsewhere.
std::string locate_global(const void* address);

}  // namespace autosched::emulator
