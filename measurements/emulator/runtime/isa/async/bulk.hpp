// Bulk copies from shared memory, by the warps that issue them.
#pragma once
#include "isa/numbers/encodings.hpp"
#include "isa/async/tensor_map.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator::ptx {

void start_block_bulk(Machine& machine);
void end_block_bulk(Machine& machine);

// Actor and epoch of a bulk store's reads of shared memory.
struct StoreReader {
  unsigned actor;
  Epoch epoch;
};
StoreReader start_bulk_store(Warp& w, unsigned lane, SiteIndex site);

// The bit mask of cluster blocks in a source; 0 with a finding if it is empty or contains blocks that do not exist.
Lanes blocks_of_multicast(Warp& w, const Instruction& i, unsigned source, unsigned lane, const char* name);

}  // namespace autosched::emulator::ptx
