// Rounding of numbers to the formats of the GPU. An intermediate double that is not exact is rounded to odd. Rounding
// it again, to a format with at least two bits less, then gives the correctly rounded result.
#pragma once
#include "isa/numbers/encodings.hpp"
#include "isa/program.hpp"
#include "isa/ptx.hpp"
#include <cfenv>
#include <cmath>
#include <cstdint>

namespace autosched::emulator::ptx {

inline float flush(float x) {
  return (to_bits(x) & 0x7f800000u) == 0 ? from_bits(to_bits(x) & 0x80000000u) : x;
}
constexpr float canonical_nan_bits_as_float() { return __builtin_bit_cast(float, 0x7fffffffu); }
inline float canonical(float x) { return x != x ? canonical_nan_bits_as_float() : x; }
// atom.add.f32 and red.add.f32 in global memory: "flushes subnormal inputs and results to sign-preserving zero" (PTX
// ISA, atom and red). The PTX ISA specifies the same for cp.reduce.async.bulk, but an H100 does not flush there.
inline float add_in_global(float x, float y) { return canonical(flush(flush(x) + flush(y))); }

// The 16-bit NaN that TMA writes for elements outside of a tensor if its map requests NaN. fma.oob recognises it. The
// PTX ISA does not specify its bits: third parties measured this value on sm_120. On an H100, the bits are not all ones
// (2026-11-27).
constexpr std::uint16_t nan_outside_tensor = 0x7ff7;

// Rounds the exact value `sum + error` to odd. `sum` is the exact value rounded to nearest; `error` is the difference.
inline double to_odd(double sum, double error) {
  if (error == 0 || !std::isfinite(sum)) return sum;
  auto bits = __builtin_bit_cast(std::uint64_t, sum);
  if (bits & 1u) return sum;
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return __builtin_bit_cast(double, bits);
}
inline double add_odd(double x, double y) {
  const double sum = x + y, t = sum - x;
  return to_odd(sum, (x - (sum - t)) + (y - t));
}

// A binary floating-point format, with or without infinities.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;
  unsigned nan;      // the canonical NaN
  unsigned largest;  // the largest finite value
  bool has_nan = true;
};
constexpr Format f16_format{5, 10, true, 0x7fff, 0x7bff}, bf16_format{8, 7, true, 0x7fff, 0x7f7f},
    e4m3_format{4, 3, false, 0x7f, 0x7e}, e5m2_format{5, 2, true, 0x7f, 0x7b}, e2m1_format{2, 1, false, 0x7, 0x7, false},
    e2m3_format{2, 3, false, 0x1f, 0x1f, false}, e3m2_format{3, 2, false, 0x1f, 0x1f, false};

// Rounds `x`, which is exact or rounded to odd, to a format. An overflow gives infinity, or the largest value if the
// rounding mode or `saturate` requires it.
inline unsigned encode(const Format& f, double x, Rounding mode, bool saturate = false) {
  const unsigned sign_bit = 1u << (f.exponent_bits + f.mantissa_bits);
  if (x != x) return f.nan;
  const bool negative = std::signbit(x);
  const unsigned sign = negative ? sign_bit : 0;
  const unsigned infinite = f.has_infinity ? ((1u << f.exponent_bits) - 1) << f.mantissa_bits : f.nan;
  if (std::isinf(x)) return sign | (saturate ? f.largest : infinite);
  if (x == 0) return sign;
  const double magnitude = std::fabs(x);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias) exponent = 1 - bias;
  const double scaled = std::ldexp(magnitude, f.mantissa_bits - exponent);  // exact
  const double low = std::floor(scaled), rest = scaled - low;
  auto steps = static_cast<std::uint64_t>(low);
  bool up = false;
  switch (mode) {
    case Rounding::zero: break;
    case Rounding::down: up = negative && rest != 0; break;
    case Rounding::up: up = !negative && rest != 0; break;
    case Rounding::away: up = rest >= 0.5; break;
    default: up = rest > 0.5 || (rest == 0.5 && steps % 2 == 1);
  }
  steps += up;
  const std::uint64_t hidden = std::uint64_t{1} << f.mantissa_bits;
  std::uint64_t bits = steps;  // subnormal: the exponent field is 0
  if (steps >= hidden) bits = steps - hidden + (static_cast<std::uint64_t>(exponent + bias) << f.mantissa_bits);
  if (bits > f.largest) {
    const bool to_largest = saturate || mode == Rounding::zero || (mode == Rounding::down && !negative) ||
                            (mode == Rounding::up && negative);
    return sign | (to_largest ? f.largest : infinite);
  }
  return sign | static_cast<unsigned>(bits);
}
inline double decode(const Format& f, unsigned bits) {
  const unsigned magnitude = bits & ((1u << (f.exponent_bits + f.mantissa_bits)) - 1);
  const bool negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1u;
  const unsigned top = (1u << f.exponent_bits) - 1, exponent = magnitude >> f.mantissa_bits;
  const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  double x;
  if (f.has_infinity && exponent == top) {
    x = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else if (!f.has_infinity && f.has_nan && magnitude == f.nan) {
    x = std::nan("");
  } else if (exponent == 0) {
    x = std::ldexp(static_cast<double>(mantissa), 1 - bias - f.mantissa_bits);
  } else {
    x = std::ldexp(1.0 + std::ldexp(static_cast<double>(mantissa), -f.mantissa_bits), static_cast<int>(exponent) - bias);
  }
  return negative ? -x : x;
}

// Sets the rounding mode of the host's CPU for a scope. Results must be stored to memory in this scope, so that the
// compiler does not compute them elsewhere.
class HostRounding {
 public:
  explicit HostRounding(Rounding mode)
      : changed_(mode == Rounding::zero || mode == Rounding::down || mode == Rounding::up) {
    if (!changed_) return;
    std::fesetround(mode == Rounding::zero ? FE_TOWARDZERO : mode == Rounding::down ? FE_DOWNWARD : FE_UPWARD);
    asm volatile("" ::: "memory");
  }
  ~HostRounding() {
    if (!changed_) return;
    asm volatile("" ::: "memory");
    std::fesetround(FE_TONEAREST);
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  bool changed_;
};

// Returns the result of an approximate function. Without program.perturb, this is the exact value. With it, the error of
// the result is |exact| * relative + absolute; the bits of the exact value determine the sign of the error.
inline double approximated(Machine& machine, double exact, double relative, double absolute = 0) {
  if (!machine.program.perturb || !std::isfinite(exact) || exact == 0) return exact;
  const auto bits = __builtin_bit_cast(std::uint64_t, exact) * 0x9e3779b97f4a7c15ull;
  const double error = std::fabs(exact) * relative + absolute;
  return bits >> 63 ? exact + error : exact - error;
}

}  // namespace autosched::emulator::ptx
