// Values that threads store unchanged as they have loaded them (isa/values/copies.cpp).
#pragma once
#include <cstdint>

namespace autosched::emulator {

// The elements that the running thread stores, and where in global memory it has loaded each; 0: not a copy.
struct Copied {
  static constexpr unsigned most = 8;
  unsigned element_bytes;
  std::uint64_t from[most];
};

}  // namespace autosched::emulator
