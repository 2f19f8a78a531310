// The shadow of shared memory: which thread last wrote and read each byte, and when. Only for shared_*.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "machine/machine.hpp"

namespace autosched::emulator::shared_shadow {

struct Stamp {
  Epoch epoch;
  Who who;
  SiteIndex site;
};
// State of a byte: operations in flight to it, or the reason why it is not data.
enum class InFlight : std::uint8_t { nothing, cp_async, bulk_copy, mbarrier };
struct Pending {
  InFlight what;
  Who who;
  SiteIndex site;
};

// Accesses to the bytes of the running blocks' shared memory.
struct SharedUses : Unit {
  using Unit::Unit;

  // Indexed by position: an address in the windows of the cluster's blocks, which follow one another. Stamps of earlier
  // blocks are ignored.
  Stamp* last_write = nullptr;
  Pending* pending = nullptr;
  Stamp** last_read = nullptr;  // by actor
  // Since the last write, by actors modulo 32; may include actors whose stamp belongs to an earlier block.
  std::uint32_t* readers = nullptr;
  // Warps, modulo 32, that have written the same value with the same instruction as the last writer, unordered with it.
  std::uint32_t* together = nullptr;
  std::size_t window_bytes = 0;  // per block
  bool has_engines = false;      // bulk copies or mbarriers were used
  Parked<Stamp**> parked_reads{parking, last_read};
  Parked<Stamp*> parked_writes{parking, last_write};
  Parked<Pending*> parked_pending{parking, pending};
  Parked<std::uint32_t*> parked_masks[2] = {{parking, readers}, {parking, together}};

  // Sites whose accesses do not race with each other: atomics, and volatile or relaxed loads and stores.
  std::vector<bool> strong_sites;
  // A volatile access of data, rather than a poll.
  std::vector<bool> volatile_sites;

  // Bytes to which a thread stored undefined values, and their known bits.
  struct Unknown {
    unsigned char known;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Unknown>> unknown{parking};
  // The last write of a position that was not an atomic, if atomics followed.
  PerBlock<std::unordered_map<unsigned, Stamp>> under_atomics{parking};
  // Bytes to which several threads have written different values in any order: the writers, and the line of the second
  // write. Only a write that is ordered after all of them resolves this.
  struct Racing {
    std::vector<Stamp> writers;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Racing>> racing{parking};
};

Stamp* reads_of(Machine& machine, unsigned actor);  // newest reads, by position; several lanes of an epoch are a group
void reserve_shadow(Machine& machine);

template <class T>
T* zeroed_array(Machine& machine, std::size_t count) {
  return static_cast<T*>(reserve_zeroed(machine, count * sizeof(T)));
}

constexpr unsigned no_position = ~0u;  // of addresses outside of any block's shared memory
// The position of an address: in the running thread's block, or in the block whose rank the address contains.
// `touches`: the running thread accesses the bytes.
unsigned find(Machine& machine, std::uint32_t address, int bytes, bool touches = true);
unsigned char* bytes_at(Machine& machine, unsigned position);
std::string describe_position(Machine& machine, unsigned position);

inline std::string describe_actor(Machine& machine, Who who) { return describe(machine, who, machine.block_index); }
// True if the actor is the async proxy: wgmma, or a bulk copy.
inline bool by_engine(Machine& machine, Who who) { return warp_of(who) >= machine.clocks.warps; }

// Checks and records an access of `me` at self->site; a problem is reported at most once. ``lazily``: an undefined
// value is not a fault yet; it is recorded (note_uninitialized), and false is returned.
bool shadow_read(Machine& machine, unsigned position, int bytes, Who me, bool lazily = false);
// Returns true if there is no problem. Threads may write the same value with the same instruction: lanes of a warp, for
// which "only one thread performs a write, and which thread does it is undefined" (CUDA Programming Guide, SIMT
// architecture), and warps that hold copies of one value, as in Triton's layouts. ``from``: the written value. If it
// differs only in its last bits from what the same instruction has written for another thread, `nearly` is set. If
// another thread has written another value, `torn` is set, and it is a fault if any of the values is used before a
// write after them all; without `torn`, immediately.
bool check_write(Machine& machine, unsigned position, int bytes, Who me, const void* from = nullptr, bool* nearly = nullptr,
                 bool* torn = nullptr);
// The same for a write of the async proxy: a proxy fence must follow the threads' accesses to the bytes, including
// reads.
bool check_async_write(Machine& machine, unsigned position, int bytes, Who me, const char* instruction);
void mark_written(Machine& machine, unsigned position, int bytes, Who me, SiteIndex site);
void shadow_write(Machine& machine, unsigned position, int bytes, Who me, const void* from = nullptr);
void shadow_update(Machine& machine, unsigned position, int bytes, Who me);  // for an atomic
// The same for a reduction by the async proxy in three steps: whether `me` comes after the last write that was not an
// atomic, under later atomics; whether all its operands were written; and when it takes effect.
bool check_under_atomics(Machine& machine, unsigned position, int bytes, Who me);
void check_taken(Machine& machine, unsigned position, int bytes, Who me);
void mark_updated(Machine& machine, unsigned position, int bytes, Stamp update);
void forget_earlier_writes(Machine& machine);
// Called when a stored value is used; reports a finding if it is undefined.
void check_known(Machine& machine, unsigned position, int bytes);
void report_race(Machine& machine, unsigned position, Who me, const char* doing, const Stamp& other, const char* did,
                 Grade grade = Grade::fault, const char* why = "");
// Reports a thread's access to a byte that has an operation in flight, or belongs to an mbarrier.
void report_pending(Machine& machine, unsigned position, Who me, const char* doing, bool writing);
bool check_alignment(Machine& machine, unsigned address, int alignment, const char* instruction);
void report_out_of_bounds(Machine& machine, unsigned address, int bytes, const char* instruction);
void forget_remote_uses(Machine& machine);

}  // namespace autosched::emulator::shared_shadow
