// Values that threads load and store unchanged (isa/values/copies.cpp).
#pragma once
#include <cstdint>

namespace autosched::emulator {

// For each element that the running thread stores: the address in global memory from which the element was copied
// unchanged, or 0.
struct Copied {
  static constexpr unsigned most = 8;
  unsigned element_bytes;
  std::uint64_t from[most];
};

}  // namespace autosched::emulator
