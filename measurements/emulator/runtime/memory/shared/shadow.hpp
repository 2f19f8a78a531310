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

// Indexed by place: an address in the window, that of one block of the cluster behind that of another. A stamp of an
// earlier block counts as none.
extern Stamp* last_write;
extern Pending* pending;
// Since the last write, of actors modulo 32; may name some whose stamp is of an earlier block.
extern std::uint32_t* readers;
// Warps, modulo 32, that have written the same value with the same instruction as the last writer, unordered with it.
extern std::uint32_t* together;
extern std::size_t window_bytes;  // of one block
extern bool has_engines;          // bulk copies or mbarriers were used
Stamp* reads_of(unsigned actor);  // the newest of that actor, by place; several lanes of that epoch are a group
void reserve_shadow();

template <class T>
T* zeroed_array(std::size_t count) {
  return static_cast<T*>(reserve_zeroed(count * sizeof(T)));
}

constexpr unsigned nowhere = ~0u;  // the place of what is in no block's shared memory
// Where bytes of the block of the running thread, or of the one that the address names, have their shadow.
// `touches`: the running thread does something to it.
unsigned find(std::uint32_t address, int bytes, bool touches = true);
unsigned char* bytes_at(unsigned place);
std::string describe_place(unsigned place);

inline std::string describe_here(Who who) { return describe(who, block_index); }
// Whether the one who did it is the async proxy: wgmma, or a bulk copy.
inline bool by_engine(Who who) { return warp_of(who) >= clocks.warps; }

// What is wrong with an access of `me` at self->site is reported, at most once; a read or a write is noted.
// ``lazily``: what was never written is no fault yet; it is noted (note_uninitialized), and false returned.
bool shadow_read(unsigned place, int bytes, Who me, bool lazily = false);
// Whether nothing is wrong. Threads may write one value with one instruction: lanes of a warp, of which "only one thread
// performs a write, and which thread does it is undefined" (CUDA Programming Guide, SIMT architecture), and warps that
// hold copies of one value, as those of Triton's layouts do.
// ``from``: what is written. Where that differs in its last bits alone from what the same instruction has written for
// another thread, `nearly` is set.
// Where another thread has written another value, `torn` is set, and it is a fault if something comes of any of them before
// a write behind them all; without `torn`, at once.
bool check_write(unsigned place, int bytes, Who me, const void* from = nullptr, bool* nearly = nullptr, bool* torn = nullptr);
// The same where the async proxy writes: a proxy fence stands behind what threads have done to the bytes, reads too.
bool check_async_write(unsigned place, int bytes, Who me, const char* instruction);
void mark_written(unsigned place, int bytes, Who me, SiteIndex site);
void shadow_write(unsigned place, int bytes, Who me, const void* from = nullptr);
void shadow_update(unsigned place, int bytes, Who me);  // an atomic's
// The same of a reduction by the async proxy in three steps: whether `me` comes behind the last write that was no
// atomic's, where atomics have come on top of it; whether all was written that it takes; and when it comes in.
bool check_under_atomics(unsigned place, int bytes, Who me);
void check_taken(unsigned place, int bytes, Who me);
void mark_updated(unsigned place, int bytes, Stamp update);
void forget_earlier_writes();
// Bytes of which a thread stored what it had never written, and the bits of them that are known.
struct Unknown {
  unsigned char known;
  SiteIndex origin;
};
extern PerBlock<std::unordered_map<unsigned, Unknown>> unknown;
// What is stored there is used: a finding where it was never written.
void check_known(unsigned place, int bytes);
void report_race(unsigned place, Who me, const char* doing, const Stamp& other, const char* did,
                 Grade grade = Grade::fault, const char* why = "");
// What a thread finds at a byte that is no data yet, or never.
void report_pending(unsigned place, Who me, const char* doing, bool writing);
bool check_alignment(unsigned address, int alignment, const char* instruction);
void report_out_of_bounds(unsigned address, int bytes, const char* instruction);
void forget_remote_uses();

}  // namespace autosched::emulator::shared_shadow
