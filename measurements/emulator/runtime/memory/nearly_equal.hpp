// Values that differ in their last bits, as sums of the same terms in another order do.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace autosched::emulator {

// Whether bytes that two threads write are f32 numbers that differ by a few units in the last place. Small integers,
// which are subnormal as f32, are none.
inline bool nearly_equal(const void* one, const void* other, int bytes) {
  constexpr std::int64_t most = 64;
  if (bytes % 4 != 0) return false;
  for (int at = 0; at < bytes; at += 4) {
    std::uint32_t a, b;
    std::memcpy(&a, static_cast<const char*>(one) + at, 4);
    std::memcpy(&b, static_cast<const char*>(other) + at, 4);
    const std::uint32_t exponent = a >> 23 & 0xffu;
    if (a == b) continue;
    if (exponent == 0 || exponent == 0xff) return false;
    if (std::abs(static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b)) > most) return false;
  }
  return true;
}

}  // namespace autosched::emulator
