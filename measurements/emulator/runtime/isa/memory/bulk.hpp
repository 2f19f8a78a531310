// Bulk copies out of shared memory, by the warps that issue them.
#pragma once
#include "isa/arithmetic/encodings.hpp"

#include "sync/mbarrier.hpp"
#include "memory/tensor_map.hpp"

namespace autosched::emulator::ptx {

void start_block_bulk();
void end_block_bulk();

// Who reads shared memory for a bulk store, and in which of its epochs.
struct StoreReader {
  unsigned actor;
  Epoch epoch;
};
StoreReader start_bulk_store(Warp& w, unsigned lane, SiteIndex site);

// Adds `bytes` of elements to global memory, each as an atomic does.
void add_to_global(std::uint64_t to, const unsigned char* from, std::uint32_t bytes, ElementKind kind, unsigned element,
                   const char* name);

}  // namespace autosched::emulator::ptx
