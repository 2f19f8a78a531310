// Extraction and insertion of bit fields, and permutation of bytes (PTX ISA 9.7.1 and 9.7.8).
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace autosched::emulator::ptx {

template <class T>
constexpr unsigned bits_of = 8 * sizeof(T);

// Start or length of a bit field. According to the PTX ISA, only the low 8 bits of the operand are used. But for 64-bit
// values, ptxas 13.5 generates shifts, which use all bits of the operand.
template <class T>
constexpr std::uint64_t of_field(std::uint32_t operand) {
  return sizeof(T) == 8 ? operand : operand & 0xffu;
}
template <class T>
constexpr T extract(T a, std::uint32_t position, std::uint32_t length) {
  const std::uint64_t pos = of_field<T>(position), len = of_field<T>(length), msb = bits_of<T> - 1;
  if (len == 0) return 0;
  const std::uint64_t top = std::min(pos + len - 1, msb);
  const bool sign = std::is_signed_v<T> && (static_cast<std::uint64_t>(a) >> top & 1u);
  T y = 0;
  for (std::uint64_t k = 0; k <= msb; ++k) {
    const bool bit = k < len && pos + k <= msb ? (static_cast<std::uint64_t>(a) >> (pos + k) & 1u) : sign;
    y = static_cast<T>(y | static_cast<T>(static_cast<T>(bit) << k));
  }
  return y;
}
template <class T>
constexpr T insert(T a, T b, std::uint32_t position, std::uint32_t length) {
  const std::uint64_t pos = of_field<T>(position), len = of_field<T>(length);
  T y = b;
  for (std::uint64_t k = 0; k < len && pos + k < bits_of<T>; ++k) {
    const T one = static_cast<T>(T{1} << (pos + k));
    y = static_cast<T>(a >> k & 1u ? y | one : y & ~one);
  }
  return y;
}
template <bool Left, bool Clamp>
constexpr std::uint32_t funnel(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t n = Clamp ? std::min(c, 32u) : c & 31u;
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  return static_cast<std::uint32_t>(Left ? both << n >> 32 : both >> n);
}

// prmt: selects four bytes of the 8-byte value (b, a). The PTX ISA specifies the selection of each mode (section prmt).
inline std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t selector, std::int64_t mode) {
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t y = 0;
  for (unsigned k = 0; k < 4; ++k) {
    unsigned index = 0;
    bool sign = false;
    const unsigned s = selector & 3u;
    switch (mode) {
      case 0: index = selector >> 4 * k & 7u, sign = selector >> 4 * k & 8u; break;
      case 1: index = s + k; break;                                     // f4e
      case 2: index = (8 + s - k) % 8; break;                           // b4e
      case 3: index = s; break;                                         // rc8
      case 4: index = std::max(s, k); break;                            // ecl
      case 5: index = std::min(s, k); break;                            // ecr
      default: index = 2 * (s & 1u) + (k & 1u); break;                  // rc16
    }
    std::uint32_t byte = static_cast<std::uint32_t>(both >> 8 * index & 0xffu);
    if (sign) byte = byte & 0x80u ? 0xffu : 0u;
    y |= byte << 8 * k;
  }
  return y;
}

}  // namespace autosched::emulator::ptx
