// mbarriers: objects in shared memory that count arrivals and bytes, phase by phase (PTX ISA 9.7.13.15).
#pragma once
#include <optional>

#include "isa/access/memory.hpp"
#include "isa/access/reduction.hpp"

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

// A poll in which lanes of a warp observed the end of the latest phase: the lanes, and the poll's epoch and site.
struct PhaseSeen {
  unsigned warp;
  std::uint32_t lanes;
  Epoch epoch;
  SiteIndex site;
};

struct Mbarrier {
  std::uint32_t address = 0;  // address in the cluster
  // actor of the bulk copies that this mbarrier counts; the actor's epochs are clocks.first + phase
  unsigned actor = 0;
  std::uint32_t arrivals = 0;  // expected arrivals per phase
  std::int64_t left = 0;       // pending arrivals of this phase
  std::int64_t bytes = 0;      // expected bytes that have not arrived; negative if more have arrived
  std::uint32_t phase = 0;
  bool fenced = false;         // the initialisation is visible to the async proxy and other blocks
  unsigned initializer = 0;    // the initialising thread
  SiteIndex site = 0;  // source site of the initialisation
  Knowledge joining, released;  // clocks of the arrivals of the current phase, and of all finished phases
  // by thread: the phase that the thread's last poll found unfinished, plus 1; 0: none
  std::vector<std::uint32_t> awaited;
  std::vector<PhaseSeen> seen;         // each lane occurs in at most one element

  Epoch epoch(Machine& machine) const { return machine.clocks.first + phase; }
};

void start_block_mbarriers(Machine& machine);
// Reports which threads wait for mbarriers, if no thread can continue.
void report_waiting_for_mbarriers(Machine& machine);

// Returns the mbarrier at an address. If there is none, reports a finding and returns nullptr. `to_engine`: the async
// proxy uses the mbarrier, so its initialisation must be visible to this proxy.
Mbarrier* mbarrier_at(Machine& machine, std::uint32_t address, const char* instruction, bool to_engine = false);
// Called when the running thread issues a copy that the mbarrier at an address counts. Records that the current phase
// of the mbarrier cannot end before the thread's earlier actions.
void precede_phase(Machine& machine, std::uint32_t address);
// Records that bytes of a bulk copy have arrived.
void complete_bytes(Machine& machine, Mbarrier& m, std::int64_t bytes, SiteIndex site);
// Counts the arrival of a tcgen05.commit by a lane. The arrival is ordered after all operations of an actor (0: no
// actor) up to an epoch. Threads that observe the end of the phase are ordered after these operations, and after
// everything that the lane had observed.
void arrive_behind(Machine& machine, Mbarrier& m, unsigned warp, unsigned lane, unsigned actor, Epoch epoch,
                   const char* instruction);
// Executes a fence of the running thread that makes its mbarrier initialisations visible to the async proxy and to
// other blocks.
void fence_initializations(Machine& machine);

// A copy to shared memory whose bytes an mbarrier counts. `data` contains the bytes of all pieces, one piece after
// another.
struct BulkLoad {
  struct Piece {
    std::uint32_t address, bytes;
  };
  std::uint32_t mbarrier;
  std::vector<Piece> pieces;
  std::vector<unsigned char> data;
  std::int64_t bytes;  // number of bytes that the mbarrier counts
  Thread* thread;
  SiteIndex site;
  const char* async_proxy;  // name of the instruction if it writes through the async proxy; nullptr for st.async
  std::optional<Reducing> reducing;  // reduction of the data into shared memory; none for a plain copy
};
// Starts a copy. Its destination must not be accessed until the copy completes.
void start_bulk_load(Machine& machine, BulkLoad load);
// Completes copies that are in flight. Called when a thread's poll finds the phase of the mbarrier at `address`
// unfinished.
void land_some(Machine& machine, std::uint32_t address);

// Reads an address of shared memory from a source operand, as an address in the cluster. Returns false, with a finding,
// if the address is invalid.
bool shared_operand(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane,
                    const char* instruction, std::uint32_t& address);

}  // namespace autosched::emulator::ptx
