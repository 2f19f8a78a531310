// Values that threads load and store unchanged (isa/values/copies.cpp).
#pragma once
#include <cstdint>

namespace autosched::emulator {

// The elements that the running thread stores, and the global-memory location of each copy; 0: not a copy.
struct Copied {
  static constexpr unsigned most = 8;
  unsigned element_bytes;
  std::uint64_t from[most];
};

}  // namespace autosched::emulator
