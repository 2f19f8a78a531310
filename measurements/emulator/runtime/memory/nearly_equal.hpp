// Values that differ in their last bits, as sums of the same terms in another order do.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "report.hpp"

namespace autosched::emulator {

// The largest magnitude of what threads have written at once by an instruction.
inline std::unordered_map<SiteIndex, float> largest_by_site;

// Whether two f32 numbers differ as little as sums of the same terms. Where terms cancel, these differ by many units in
// the last place of what is left: by few of the sums that the same instruction writes elsewhere. Whole numbers are
// exact: sums of them do not differ. Small integers, which are subnormal as f32, are none.
inline bool nearly_equal(std::uint32_t a, std::uint32_t b, float& largest) {
  constexpr std::int64_t most = 64;
  constexpr float relative = 0x1p-12f, of_largest = 0x1p-18f;
  const std::uint32_t exponent = a >> 23 & 0xffu;
  if (a == b) return true;
  if (exponent == 0 || exponent == 0xff) return false;
  float x, y;
  std::memcpy(&x, &a, 4);
  std::memcpy(&y, &b, 4);
  if (!std::isfinite(y)) return false;
  largest = std::fmax(largest, std::fmax(std::fabs(x), std::fabs(y)));
  if (std::abs(static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b)) <= most) return true;
  if (std::nearbyint(x) == x && std::nearbyint(y) == y) return false;
  const float apart = std::fabs(x - y);
  return apart <= relative * std::fmax(std::fabs(x), std::fabs(y)) || apart <= of_largest * largest;
}

// Of bytes that two threads write by the instruction ``site``.
inline bool nearly_equal(const void* one, const void* other, int bytes, SiteIndex site) {
  if (bytes % 4 != 0) return false;
  for (int at = 0; at < bytes; at += 4) {
    std::uint32_t a, b;
    std::memcpy(&a, static_cast<const char*>(one) + at, 4);
    std::memcpy(&b, static_cast<const char*>(other) + at, 4);
    if (!nearly_equal(a, b, largest_by_site[site])) return false;
  }
  return true;
}

}  // namespace autosched::emulator
