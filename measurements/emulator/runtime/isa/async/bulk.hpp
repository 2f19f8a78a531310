// Bulk stores, which read shared memory.
#pragma once
#include "isa/numbers/encodings.hpp"
#include "isa/async/tensor_map.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator::ptx {

void start_block_bulk(Machine& machine);
void end_block_bulk(Machine& machine);

// The actor and the epoch under which a bulk store reads shared memory.
struct StoreReader {
  unsigned actor;
  Epoch epoch;
};
StoreReader start_bulk_store(Warp& w, unsigned lane, SiteIndex site);

// Reads the bit mask of cluster blocks from a source operand. Reports a finding and returns 0 if the mask is empty or
// contains blocks that do not exist.
Lanes blocks_of_multicast(Warp& w, const Instruction& i, unsigned source, unsigned lane, const char* name);

}  // namespace autosched::emulator::ptx
