// The shadow of shared memory: which threads have last written and read each byte, and when. Internal header of the
// files about shared memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "machine/machine.hpp"

namespace autosched::emulator::shared_shadow {

struct Stamp {
  Epoch epoch;
  Agent agent;
  SiteIndex site;
};
// State of a byte: the kind of copy that is in flight to it, if any, or that the byte is part of an mbarrier.
enum class InFlight : std::uint8_t { nothing, cp_async, bulk_copy, mbarrier };
struct Pending {
  InFlight kind;
  Agent agent;
  SiteIndex site;
};

// Records of accesses to the running blocks' shared memory.
struct SharedUses : Unit {
  using Unit::Unit;

  // These arrays are indexed by position: an index in the concatenated windows of the cluster's blocks. Stamps of
  // earlier blocks are ignored.
  Stamp* last_write = nullptr;
  Pending* pending = nullptr;
  Stamp** last_read = nullptr;  // last reads, by actor and position
  // The actors that have read a byte since its last write, as a bit mask of their numbers modulo 32. It may include
  // actors that read the byte in an earlier block.
  std::uint32_t* readers = nullptr;
  // The warps that are not ordered with the last writer, but have written the same value with the same instruction. A
  // bit mask of their numbers modulo 32.
  std::uint32_t* together = nullptr;
  std::size_t window_bytes = 0;  // size of a block's window
  bool has_engines = false;      // whether bulk copies or mbarriers were used
  Parked<Stamp**> parked_reads{parking, last_read};
  Parked<Stamp*> parked_writes{parking, last_write};
  Parked<Pending*> parked_pending{parking, pending};
  Parked<std::uint32_t*> parked_masks[2] = {{parking, readers}, {parking, together}};

  // Sites whose accesses do not race with each other: atomics, and volatile or relaxed loads and stores.
  std::vector<bool> strong_sites;
  // Sites of volatile accesses.
  std::vector<bool> volatile_sites;

  // Bytes to which a thread stored undefined values, and their known bits.
  struct Unknown {
    unsigned char known;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Unknown>> unknown{parking};
  // The last plain write of a position, if atomics followed.
  PerBlock<std::unordered_map<unsigned, Stamp>> under_atomics{parking};
  // Bytes to which several threads have written different values without an order between the writes. Only a write that
  // is ordered after all of them resolves such a race. `origin`: site of the second write.
  struct Racing {
    std::vector<Stamp> writers;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Racing>> racing{parking};
};

// last reads by an actor, by position; reads of several lanes in one epoch are combined
Stamp* reads_of(Machine& machine, unsigned actor);
void reserve_shadow(Machine& machine);

template <class T>
T* zeroed_array(Machine& machine, std::size_t count) {
  return static_cast<T*>(reserve_zeroed(machine, count * sizeof(T)));
}

constexpr unsigned no_position = ~0u;  // result of find() for addresses outside of any block's shared memory
// The position of an address: in the running thread's block, or in the block whose rank the address contains.
// `touches`: the running thread accesses the bytes.
unsigned find(Machine& machine, std::uint32_t address, int bytes, bool touches = true);
unsigned char* bytes_at(Machine& machine, unsigned position);
std::string describe_position(Machine& machine, unsigned position);

inline std::string describe_agent(Machine& machine, Agent agent) { return describe(machine, agent, machine.block_index); }
// True if an access is by an asynchronous engine rather than by a thread: wgmma, or a bulk copy.
inline bool by_engine(Machine& machine, Agent agent) { return warp_of(agent) >= machine.clocks.warps; }

// Checks and records a read by `me` at self->site. Reports at most one finding. ``lazily``: an undefined value is not
// reported but recorded (note_uninitialized), and the result is false.
bool shadow_read(Machine& machine, unsigned position, int bytes, Agent me, bool lazily = false);
// Checks a write, and returns true if there is no finding. Threads may write the same value with the same instruction.
// These may be lanes of a warp, for which "only one thread performs a write, and which thread does it is undefined"
// (CUDA Programming Guide, SIMT architecture), or warps that hold copies of a value, as in Triton's layouts. ``from``:
// the written value. `nearly` is set if another thread has written, with the same instruction, a value that differs
// only in the last bits. `torn` is set if another thread has written a different value. This is a fault only if the
// value is used. It is harmless if the value is first overwritten by a write that is ordered after both writes. If
// `torn` is nullptr, a different value is a fault immediately.
bool check_write(Machine& machine, unsigned position, int bytes, Agent me, const void* from = nullptr,
                 bool* nearly = nullptr, bool* torn = nullptr);
// Checks a write by the async proxy. In addition to the usual order, a proxy fence must follow each earlier access of a
// thread to the bytes, even a read.
bool check_async_write(Machine& machine, unsigned position, int bytes, Agent me, const char* instruction);
void mark_written(Machine& machine, unsigned position, int bytes, Agent me, SiteIndex site);
void shadow_write(Machine& machine, unsigned position, int bytes, Agent me, const void* from = nullptr);
void shadow_update(Machine& machine, unsigned position, int bytes, Agent me);  // records an atomic
// Three steps of a reduction by the async proxy. If atomics have followed the last plain write, check_under_atomics
// returns whether `me` is ordered after that write. check_taken checks that the bytes to update have been written.
// mark_updated records the reduction when it takes effect.
bool check_under_atomics(Machine& machine, unsigned position, int bytes, Agent me);
void check_taken(Machine& machine, unsigned position, int bytes, Agent me);
void mark_updated(Machine& machine, unsigned position, int bytes, Stamp update);
void forget_earlier_writes(Machine& machine);
// Called when bytes are used. Reports a finding if they hold undefined values.
void check_known(Machine& machine, unsigned position, int bytes);
void report_race(Machine& machine, unsigned position, Agent me, const char* doing, const Stamp& other,
                 const char* did, Grade grade = Grade::fault, const char* why = "");
// Reports an access to a byte that an asynchronous copy in flight writes, or that belongs to an mbarrier.
void report_pending(Machine& machine, unsigned position, Agent me, const char* doing, bool writing);
bool check_alignment(Machine& machine, unsigned address, int alignment, const char* instruction);
void report_out_of_bounds(Machine& machine, unsigned address, int bytes, const char* instruction);
void forget_remote_uses(Machine& machine);

}  // namespace autosched::emulator::shared_shadow
