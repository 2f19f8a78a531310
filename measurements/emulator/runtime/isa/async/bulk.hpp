// Bulk copies from shared memory, by the warps that issue them.
#pragma once
#include "isa/numbers/encodings.hpp"
#include "isa/async/tensor_map.hpp"
#include "isa/async/mbarrier.hpp"

namespace autosched::emulator::ptx {

void start_block_bulk(Machine& machine);
void end_block_bulk(Machine& machine);

// The actor that reads shared memory for a bulk store, and its epoch.
struct StoreReader {
  unsigned actor;
  Epoch epoch;
};
StoreReader start_bulk_store(Warp& w, unsigned lane, SiteIndex site);

// The blocks of the cluster that a source names, as bits; 0, and a finding, if it names none, or blocks that do not
// exist.
Lanes blocks_of_multicast(Warp& w, const Instruction& i, unsigned source, unsigned lane, const char* name);

}  // namespace autosched::emulator::ptx
