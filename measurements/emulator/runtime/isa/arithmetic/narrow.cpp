// Conversions of pairs of numbers of four to eight bits, and f32 arithmetic with 16-bit operands (sm_100 and later):
// PTX ISA 9.7.9.22 and 9.7.5.
#include <cmath>

#include "isa/numbers/round.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace narrow_instructions {

using u32 = std::uint32_t;

// In the order of _NARROW in measurements/emulator/ptx/families/narrow.py.
enum Type { e2m1, e2m3, e3m2, ue8m0 };
constexpr Format formats[] = {e2m1_format, e2m3_format, e3m2_format};
constexpr unsigned scale_nan = 0xff;

// Converts the magnitude of `x` to ue8m0, a power of two. Values below 2^-127 become 2^-127.
unsigned scale_of(double x, Rounding mode, bool saturate) {
  if (x != x) return scale_nan;
  const double magnitude = std::fabs(x);
  if (std::isinf(magnitude)) return saturate ? scale_nan - 1 : scale_nan;
  if (magnitude <= 0x1p-127) return 0;
  const int exponent = std::ilogb(magnitude);
  const bool rounds_up = mode == Rounding::up && magnitude > std::ldexp(1.0, exponent);
  const unsigned code = static_cast<unsigned>(exponent + 127) + rounds_up;
  return code == scale_nan && saturate ? scale_nan - 1 : code;
}

// Converts `x` to a narrow type. In types without NaN, a NaN becomes the largest value, as the PTX ISA specifies.
unsigned code_of(std::int64_t type, double x, std::uint32_t flags) {
  if (type == ue8m0) return scale_of(x, rounding(flags), (flags & satfinite) != 0);
  if ((flags & relu) && x <= 0) x = 0;
  return encode(formats[type], x, Rounding::nearest, true);
}

unsigned bits_of(std::int64_t type) { return type == e2m1 ? 4 : 8; }

// Converts two numbers to a packed pair of a narrow type. Immediates: the narrow type; whether the sources are two f32,
// rather than a pair of bf16.
void to_pair(Warp& w, const Instruction& i, Lanes active) {
  const std::int64_t type = i.immediate[0];
  for_lanes(active, [&](unsigned k) {
    double high, low;
    if (i.immediate[1] != 0) {
      high = w.values<float>(i.source(0))[k], low = w.values<float>(i.source(1))[k];
    } else {
      const u32 both = w.values<u32>(i.source(0))[k];
      high = f32_of_bf16(static_cast<std::uint16_t>(both >> 16)), low = f32_of_bf16(static_cast<std::uint16_t>(both));
    }
    w.values<std::uint16_t>(i.destination(0))[k] =
        static_cast<std::uint16_t>(code_of(type, low, i.flags) | code_of(type, high, i.flags) << bits_of(type));
  });
}

// Converts a packed pair of a narrow type. Immediate: the narrow type. Scales (ue8m0) become two bf16, other types two
// f16.
void from_pair(Warp& w, const Instruction& i, Lanes active) {
  const std::int64_t type = i.immediate[0];
  const unsigned bits = bits_of(type), mask = (1u << bits) - 1;
  const auto one = [&](unsigned code) -> u32 {
    if (type == ue8m0) return code == scale_nan ? 0x7fffu : bf16_of_f32(std::ldexp(1.0f, static_cast<int>(code) - 127));
    double x = decode(formats[type], code);
    if ((i.flags & relu) && x <= 0) x = 0;
    return encode(f16_format, x, Rounding::nearest);
  };
  for_lanes(active, [&](unsigned k) {
    const u32 both = w.values<std::uint16_t>(i.source(0))[k];
    w.values<u32>(i.destination(0))[k] = one(both & mask) | one(both >> bits & mask) << 16;
  });
}

// f32 arithmetic. The first operands (`Narrow` is their number) have 16 bits and are converted to f32, which is exact.
// Immediate: whether these operands are bf16.
template <unsigned Narrow, class F>
void mixed(Warp& w, const Instruction& i, Lanes active, F f) {
  const bool is_bf16 = i.immediate[0] != 0;
  const auto widened = [&](unsigned s, unsigned k) {
    const std::uint16_t x = w.values<std::uint16_t>(i.source(s))[k];
    return is_bf16 ? f32_of_bf16(x) : f32_of_f16(x);
  };
  float result[warp_size];
  {
    const HostRounding scope(rounding(i.flags));
    float* kept = result;
    asm volatile("" : "+r"(kept)::"memory");
    for_lanes(active, [&](unsigned k) {
      kept[k] = f(widened(0, k), Narrow > 1 ? widened(1, k) : 0.0f, w.values<float>(i.source(Narrow))[k]);
    });
  }
  for_lanes(active, [&](unsigned k) {
    float y = canonical(result[k]);
    if (i.flags & sat) y = y > 0 ? (y < 1 ? y : 1.0f) : 0.0f;
    w.values<float>(i.destination(0))[k] = y;
  });
}
void add(Warp& w, const Instruction& i, Lanes l) {
  mixed<1>(w, i, l, [](float a, float, float c) { return a + c; });
}
void subtract(Warp& w, const Instruction& i, Lanes l) {
  mixed<1>(w, i, l, [](float a, float, float c) { return a - c; });
}
void multiply_add(Warp& w, const Instruction& i, Lanes l) {
  mixed<2>(w, i, l, [](float a, float b, float c) { return std::fma(a, b, c); });
}

constexpr Row rows[] = {
    {"cvt.to_narrow", to_pair, rounding_mask | relu | satfinite, "2:44"},
    {"cvt.to_narrow", to_pair, rounding_mask | relu | satfinite, "2:4"},
    {"cvt.from_narrow", from_pair, rounding_mask | relu, "4:2"},
    {"add.mixed", add, rounding_mask | sat, "4:24"},
    {"sub.mixed", subtract, rounding_mask | sat, "4:24"},
    {"fma.mixed", multiply_add, rounding_mask | sat, "4:224"},
};

}  // namespace narrow_instructions
}  // namespace

const Rows narrow_rows{std::begin(narrow_instructions::rows), std::end(narrow_instructions::rows)};

}  // namespace autosched::emulator::ptx
