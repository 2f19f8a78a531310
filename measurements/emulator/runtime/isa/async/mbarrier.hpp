// mbarriers: objects in shared memory that count arrivals and bytes, phase by phase (PTX ISA 9.7.13.15).
#pragma once
#include <optional>

#include "isa/access/memory.hpp"
#include "isa/access/reduction.hpp"

namespace autosched::emulator {
struct Machine;
}

namespace autosched::emulator::ptx {

// Lanes that have found the latest phase finished, the last time that they did.
struct PhaseSeen {
  unsigned warp;
  std::uint32_t lanes;
  Epoch epoch;
  SiteIndex site;
};

struct Mbarrier {
  std::uint32_t address = 0;  // in the cluster
  unsigned actor = 0;         // by whom its bulk copies write: its epochs are clocks.first + phase
  std::uint32_t arrivals = 0;  // of a phase
  std::int64_t left = 0;       // arrivals to come in this phase
  std::int64_t bytes = 0;      // that are expected and have not come, negative where more have come
  std::uint32_t phase = 0;
  bool fenced = false;         // its initialization, for the async proxy and other blocks
  unsigned initializer = 0;    // the thread
  SiteIndex site = 0;          // of its initialization
  Knowledge joining, released;  // of the arrivals of this phase, and of the finished ones
  std::vector<std::uint32_t> awaited;  // by thread: the phase that it has found unfinished, plus 1
  std::vector<PhaseSeen> seen;         // a lane at most once

  Epoch epoch(Machine& machine) const { return machine.clocks.first + phase; }
};

void start_block_mbarriers(Machine& machine);
// Nobody can go on: says which threads wait for mbarriers.
void report_waiting_for_mbarriers(Machine& machine);

// The mbarrier at an address, or nullptr and a finding. `to_engine`: the async proxy is going to use it.
Mbarrier* mbarrier_at(Machine& machine, std::uint32_t address, const char* instruction, bool to_engine = false);
// What the running thread does next is needed for the running phase of the mbarrier at an address to end.
void precede_phase(Machine& machine, std::uint32_t address);
// Bytes of a bulk copy have come.
void complete_bytes(Machine& machine, Mbarrier& m, std::int64_t bytes, SiteIndex site);
// An arrival that is there once all that an actor has done up to an epoch is done (0: no actor), as tcgen05.commit asks for:
// who sees the phase end knows that, and what the lane knew.
void arrive_behind(Machine& machine, Mbarrier& m, unsigned warp, unsigned lane, unsigned actor, Epoch epoch,
                   const char* instruction);
// A fence of the running thread that makes its mbarriers' initialization visible.
void fence_initializations(Machine& machine);

// A copy into shared memory that an mbarrier counts: pieces of `data`, one after another.
struct BulkLoad {
  struct Piece {
    std::uint32_t address, bytes;
  };
  std::uint32_t mbarrier;
  std::vector<Piece> pieces;
  std::vector<unsigned char> data;
  std::int64_t bytes;  // what it counts
  Thread* thread;
  SiteIndex site;
  const char* async_proxy;  // the instruction that writes through it, nullptr of st.async
  std::optional<Reducing> reducing;  // what is there with what comes; none: what comes stays
};
// Takes the copy on its way: its bytes are nobody's until it lands.
void start_bulk_load(Machine& machine, BulkLoad load);
// A thread asks for a phase of the mbarrier at `address` and does not find it finished: copies may come in.
void land_some(Machine& machine, std::uint32_t address);

// The shared-memory address of a source operand, in the cluster. False, and a finding, where it is none.
bool shared_operand(Warp& w, const Instruction& i, unsigned source, std::int64_t offset, unsigned lane,
                    const char* instruction, std::uint32_t& address);

}  // namespace autosched::emulator::ptx
