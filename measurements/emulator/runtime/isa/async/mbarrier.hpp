// mbarriers: objects in shared memory that count arrivals and bytes, phase by phase (PTX ISA 9.7.13.15).
#pragma once
#include <optional>

#include "isa/access/memory.hpp"
#include "isa/access/reduction.hpp"

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

// Lanes that have observed the end of the latest phase, and the time.
struct PhaseSeen {
  unsigned warp;
  std::uint32_t lanes;
  Epoch epoch;
  SiteIndex site;
};

struct Mbarrier {
  std::uint32_t address = 0;  // in the cluster
  unsigned actor = 0;         // the actor of its bulk copies: its epochs are clocks.first + phase
  std::uint32_t arrivals = 0;  // per phase
  std::int64_t left = 0;       // pending arrivals of this phase
  std::int64_t bytes = 0;      // expected bytes that have not arrived; negative if more have arrived
  std::uint32_t phase = 0;
  bool fenced = false;         // its initialisation is visible to the async proxy and other blocks
  unsigned initializer = 0;    // the initialising thread
  SiteIndex site = 0;          // of its initialisation
  Knowledge joining, released;  // clocks of the arrivals of this phase, and of the finished phases
  std::vector<std::uint32_t> awaited;  // by thread: the phase that it last found unfinished, plus 1
  std::vector<PhaseSeen> seen;         // each lane at most once

  Epoch epoch(Machine& machine) const { return machine.clocks.first + phase; }
};

void start_block_mbarriers(Machine& machine);
// Reports which threads wait for mbarriers, if no thread can continue.
void report_waiting_for_mbarriers(Machine& machine);

// The mbarrier at an address, or nullptr and a finding. `to_engine`: for use by the async proxy.
Mbarrier* mbarrier_at(Machine& machine, std::uint32_t address, const char* instruction, bool to_engine = false);
// True if the current phase of the mbarrier at an address cannot end before the running thread's next action.
void precede_phase(Machine& machine, std::uint32_t address);
// Bytes of a bulk copy have arrived.
void complete_bytes(Machine& machine, Mbarrier& m, std::int64_t bytes, SiteIndex site);
// An arrival (of tcgen05.commit) once an actor has completed everything up to an epoch (0: no actor). Threads that
// observe the end of the phase are ordered after that, and after everything that the lane had observed.
void arrive_behind(Machine& machine, Mbarrier& m, unsigned warp, unsigned lane, unsigned actor, Epoch epoch,
                   const char* instruction);
// A fence of the running thread that makes the initialisation of its mbarriers visible.
void fence_initializations(Machine& machine);

// A copy into shared memory that an mbarrier counts: pieces of `data`, one after another.
struct BulkLoad {
  struct Piece {
    std::uint32_t address, bytes;
  };
  std::uint32_t mbarrier;
  std::vector<Piece> pieces;
  std::vector<unsigned char> data;
  std::int64_t bytes;  // counted by the mbarrier
  Thread* thread;
  SiteIndex site;
  const char* async_proxy;  // the instruction that writes through it; nullptr for st.async
  std::optional<Reducing> reducing;  // the reduction; none: a plain copy
};
// Starts the copy, whose bytes must not be accessed until it completes.
void start_bulk_load(Machine& machine, BulkLoad load);
// Called when a thread finds the phase of the mbarrier at `address` unfinished, so that copies may complete.
void land_some(Machine& machine, std::uint32_t address);

// The shared-memory address of a source operand, in the cluster. False, with a finding, if it is invalid.
bool shared_operand(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane,
                    const char* instruction, std::uint32_t& address);

}  // namespace autosched::emulator::ptx
