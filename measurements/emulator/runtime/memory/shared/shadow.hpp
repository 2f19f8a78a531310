// The shadow of shared memory: who last wrote and who has read each byte, and when. For shared_*.cpp alone.
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
// What is under way to a byte, or what stands there that is no data.
enum class Under : std::uint8_t { nothing, cp_async, bulk_copy, mbarrier };
struct Pending {
  Under what;
  Who who;
  SiteIndex site;
};

// Who has used the bytes of shared memory of the running blocks.
struct SharedUses : Unit {
  using Unit::Unit;

  // Indexed by place: an address in the window, that of one block of the cluster behind that of another. A stamp of an
  // earlier block counts as none.
  Stamp* last_write = nullptr;
  Pending* pending = nullptr;
  Stamp** last_read = nullptr;  // by actor
  // Since the last write, of actors modulo 32; may name some whose stamp is of an earlier block.
  std::uint32_t* readers = nullptr;
  // Warps, modulo 32, that have written the same value with the same instruction as the last writer, unordered with it.
  std::uint32_t* together = nullptr;
  std::size_t window_bytes = 0;  // of one block
  bool has_engines = false;      // bulk copies or mbarriers were used
  Parked<Stamp**> parked_reads{parking, last_read};
  Parked<Stamp*> parked_writes{parking, last_write};
  Parked<Pending*> parked_pending{parking, pending};
  Parked<std::uint32_t*> parked_masks[2] = {{parking, readers}, {parking, together}};

  // Sites whose accesses do not race with each other: atomics, and volatile or relaxed loads and stores.
  std::vector<bool> strong_sites;
  // A volatile access of data, which is not a question whether something has happened.
  std::vector<bool> volatile_sites;

  // Bytes of which a thread stored what it had never written, and the bits of them that are known.
  struct Unknown {
    unsigned char known;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Unknown>> unknown{parking};
  // The last write of a place that was not an atomic, where atomics have come on top of it.
  PerBlock<std::unordered_map<unsigned, Stamp>> under_atomics{parking};
  // Bytes of which several threads have written values of their own, in any order: who, and where the second one was found.
  // One of them may write again: that is no end of it. Only a write behind all of them is.
  struct Racing {
    std::vector<Stamp> writers;
    SiteIndex origin;
  };
  PerBlock<std::unordered_map<unsigned, Racing>> racing{parking};
};

Stamp* reads_of(Machine& machine, unsigned actor);  // the newest of that actor, by place; several lanes of that epoch are a group
void reserve_shadow(Machine& machine);

template <class T>
T* zeroed_array(Machine& machine, std::size_t count) {
  return static_cast<T*>(reserve_zeroed(machine, count * sizeof(T)));
}

constexpr unsigned nowhere = ~0u;  // the place of what is in no block's shared memory
// Where bytes of the block of the running thread, or of the one that the address names, have their shadow.
// `touches`: the running thread does something to it.
unsigned find(Machine& machine, std::uint32_t address, int bytes, bool touches = true);
unsigned char* bytes_at(Machine& machine, unsigned place);
std::string describe_place(Machine& machine, unsigned place);

inline std::string describe_here(Machine& machine, Who who) { return describe(machine, who, machine.block_index); }
// Whether the one who did it is the async proxy: wgmma, or a bulk copy.
inline bool by_engine(Machine& machine, Who who) { return warp_of(who) >= machine.clocks.warps; }

// What is wrong with an access of `me` at self->site is reported, at most once; a read or a write is noted.
// ``lazily``: what was never written is no fault yet; it is noted (note_uninitialized), and false returned.
bool shadow_read(Machine& machine, unsigned place, int bytes, Who me, bool lazily = false);
// Whether nothing is wrong. Threads may write one value with one instruction: lanes of a warp, of which "only one thread
// performs a write, and which thread does it is undefined" (CUDA Programming Guide, SIMT architecture), and warps that
// hold copies of one value, as those of Triton's layouts do.
// ``from``: what is written. Where that differs in its last bits alone from what the same instruction has written for
// another thread, `nearly` is set.
// Where another thread has written another value, `torn` is set, and it is a fault if something comes of any of them before
// a write behind them all; without `torn`, at once.
bool check_write(Machine& machine, unsigned place, int bytes, Who me, const void* from = nullptr, bool* nearly = nullptr,
                 bool* torn = nullptr);
// The same where the async proxy writes: a proxy fence stands behind what threads have done to the bytes, reads too.
bool check_async_write(Machine& machine, unsigned place, int bytes, Who me, const char* instruction);
void mark_written(Machine& machine, unsigned place, int bytes, Who me, SiteIndex site);
void shadow_write(Machine& machine, unsigned place, int bytes, Who me, const void* from = nullptr);
void shadow_update(Machine& machine, unsigned place, int bytes, Who me);  // an atomic's
// The same of a reduction by the async proxy in three steps: whether `me` comes behind the last write that was no
// atomic's, where atomics have come on top of it; whether all was written that it takes; and when it comes in.
bool check_under_atomics(Machine& machine, unsigned place, int bytes, Who me);
void check_taken(Machine& machine, unsigned place, int bytes, Who me);
void mark_updated(Machine& machine, unsigned place, int bytes, Stamp update);
void forget_earlier_writes(Machine& machine);
// What is stored there is used: a finding where it was never written.
void check_known(Machine& machine, unsigned place, int bytes);
void report_race(Machine& machine, unsigned place, Who me, const char* doing, const Stamp& other, const char* did,
                 Grade grade = Grade::fault, const char* why = "");
// What a thread finds at a byte that is no data yet, or never.
void report_pending(Machine& machine, unsigned place, Who me, const char* doing, bool writing);
bool check_alignment(Machine& machine, unsigned address, int alignment, const char* instruction);
void report_out_of_bounds(Machine& machine, unsigned address, int bytes, const char* instruction);
void forget_remote_uses(Machine& machine);

}  // namespace autosched::emulator::shared_shadow
