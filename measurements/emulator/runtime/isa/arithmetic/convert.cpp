// cvt and mov: PTX ISA 9.7.9. The most common conversions have their own rows in the instruction table; the last row
// implements all other conversions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "isa/map.hpp"
#include "isa/numbers/round.hpp"
#include "isa/values/undefined.hpp"

namespace autosched::emulator::ptx {
namespace {

// The order must equal the order of CONVERTED in measurements/emulator/ptx/forms.py.
enum Type { u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, f32, f64, tf32, f16x2, bf16x2, e4m3x2, e5m2x2 };
constexpr bool is_integer(std::int64_t t) { return t <= s64; }
constexpr bool is_signed(std::int64_t t) { return is_integer(t) && t % 2 == 1; }
constexpr unsigned bits_of_integer(std::int64_t t) { return 8u << (t / 2); }

// A value to convert: an integer of up to 64 bits, or a float.
struct Value {
  bool integer = false;
  bool negative_type = false;  // true for signed integers
  std::uint64_t bits = 0;
  double real = 0;
};

Value load(std::int64_t type, std::uint64_t bits) {
  if (is_integer(type)) {
    const unsigned n = bits_of_integer(type);
    const unsigned unused = 64 - n;
    bits <<= unused;
    bits = is_signed(type) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits) >> unused) : bits >> unused;
    return {true, is_signed(type), bits, 0};
  }
  switch (type) {
    case f16: return {false, false, 0, f32_of_f16(static_cast<unsigned short>(bits))};
    case bf16: return {false, false, 0, f32_of_bf16(static_cast<unsigned short>(bits))};
    case f64: return {false, false, 0, __builtin_bit_cast(double, bits)};
    default: return {false, false, 0, from_bits(static_cast<unsigned>(bits))};
  }
}

std::uint64_t integer_of_integer(std::int64_t to, const Value& x, bool saturate) {
  const unsigned n = bits_of_integer(to);
  std::uint64_t y = x.bits;
  if (saturate) {
    const bool below_zero = x.negative_type && static_cast<std::int64_t>(x.bits) < 0;
    if (is_signed(to)) {
      const std::int64_t high = static_cast<std::int64_t>((std::uint64_t{1} << (n - 1)) - 1), low = -high - 1;
      if (below_zero) {
        y = static_cast<std::uint64_t>(std::max(static_cast<std::int64_t>(x.bits), low));
      } else if (x.bits > static_cast<std::uint64_t>(high)) {
        y = static_cast<std::uint64_t>(high);
      }
    } else {
      const std::uint64_t high = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
      y = below_zero ? 0 : std::min(x.bits, high);
    }
  }
  // Extends a result to the width of its register, which may be wider than the result.
  const unsigned unused = 64 - n;
  return is_signed(to) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(y << unused) >> unused)
                       : y << unused >> unused;
}

double integral(double x, Rounding mode) {
  switch (mode) {
    case Rounding::zero: return std::trunc(x);
    case Rounding::down: return std::floor(x);
    case Rounding::up: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}

std::uint64_t integer_of_float(std::int64_t to, double x, Rounding mode, bool from_f64) {
  const unsigned n = bits_of_integer(to);
  if (x != x) {
    if (!from_f64 && n < 64) return 0;
    const std::uint64_t y = std::uint64_t{1} << (n - 1);
    return is_signed(to) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(y << (64 - n)) >> (64 - n)) : y;
  }
  const double y = integral(x, mode);
  if (is_signed(to)) {
    const double limit = std::ldexp(1.0, static_cast<int>(n) - 1);
    const auto high = static_cast<std::int64_t>((std::uint64_t{1} << (n - 1)) - 1);
    if (y >= limit) return static_cast<std::uint64_t>(high);
    if (y < -limit) return static_cast<std::uint64_t>(-high - 1);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(y));
  }
  if (y <= 0) return 0;
  if (y >= std::ldexp(1.0, static_cast<int>(n))) return n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
  return static_cast<std::uint64_t>(y);
}

// Converts an integer to double, rounding to odd.
double odd_of_integer(const Value& x) {
  const long double exact = x.negative_type ? static_cast<long double>(static_cast<std::int64_t>(x.bits))
                                            : static_cast<long double>(x.bits);
  const double near = static_cast<double>(exact);
  return to_odd(near, static_cast<double>(exact - static_cast<long double>(near)));
}

// Rounds `x` to f32 or f64 with a rounding mode.
template <class T>
T round_real(const Value& x, Rounding mode) {
  const HostRounding scope(mode);
  if (x.integer) {
    volatile long double exact = x.negative_type ? static_cast<long double>(static_cast<std::int64_t>(x.bits))
                                                 : static_cast<long double>(x.bits);
    volatile T y = static_cast<T>(exact);
    return y;
  }
  volatile double exact = x.real;
  volatile T y = static_cast<T>(exact);
  return y;
}

unsigned tf32_of(float x, Rounding mode, bool satfinite_) {
  const unsigned bits = to_bits(x), magnitude = bits & 0x7fffffffu;
  unsigned y;
  if (mode == Rounding::away) {
    y = tf32_of_f32(bits);
  } else if (magnitude > 0x7f800000u) {
    y = 0x7fffffffu;
  } else if (mode == Rounding::zero) {
    y = bits & 0xffffe000u;
  } else {
    y = magnitude == 0x7f800000u ? bits : (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
  }
  if (satfinite_ && (y & 0x7fffffffu) == 0x7f800000u) y = (y & 0x80000000u) | 0x7f7fe000u;
  return y;
}

std::uint64_t float_bits(const Instruction& i, std::int64_t to, const Value& x) {
  Rounding mode = rounding(i.flags);
  double real = x.integer ? odd_of_integer(x) : x.real;
  if (!x.integer && (i.flags & to_integral)) {
    real = integral(real, mode);
    mode = Rounding::nearest;
  }
  if ((i.flags & relu) && !(real > 0)) real = real != real ? real : 0.0;
  switch (to) {
    case f16:
    case bf16: {
      const Format& format = to == f16 ? f16_format : bf16_format;
      unsigned y = encode(format, real, mode, (i.flags & satfinite) != 0);
      if (i.flags & sat) {
        const double z = decode(format, y);
        y = z > 0 ? (z < 1 ? y : encode(format, 1, Rounding::nearest)) : 0;
      }
      return y;
    }
    case tf32: return tf32_of(static_cast<float>(real), mode, (i.flags & satfinite) != 0);
    case f32: {
      float y = x.integer ? round_real<float>(x, mode) : round_real<float>({false, false, 0, real}, mode);
      if (i.flags & ftz) y = flush(y);
      if (i.flags & sat) y = y > 0 ? (y < 1 ? y : 1.0f) : 0.0f;
      return to_bits(canonical(y));
    }
    default: {
      double y = x.integer ? round_real<double>(x, mode) : real;
      if (i.flags & sat) y = y > 0 ? (y < 1 ? y : 1.0) : 0.0;
      return __builtin_bit_cast(std::uint64_t, y);
    }
  }
}

std::uint64_t convert(const Instruction& i, std::int64_t to, std::int64_t from, std::uint64_t bits) {
  Value x = load(from, bits);
  if ((i.flags & ftz) && from == f32) x.real = flush(static_cast<float>(x.real));
  if (is_integer(to)) {
    return x.integer ? integer_of_integer(to, x, (i.flags & sat) != 0)
                     : integer_of_float(to, x.real, rounding(i.flags), from == f64);
  }
  if (x.real != x.real && (i.flags & (sat | satfinite)) == 0) {  // conversions of NaN, as measured on an H100
    // keeps the sign and the upper bits of the NaN
    if (to == f32 && from == f64) return to_bits(static_cast<float>(x.real));
    if (to == f32 && from == bf16) return bits << 16;
    if (to == tf32 && from == f32 && rounding(i.flags) == Rounding::away) return tf32_of_f32(static_cast<unsigned>(bits));
  }
  return float_bits(i, to, x);
}

// The type of the two values of a packed pair.
std::int64_t half_of_pair(std::int64_t pair) { return pair == f16x2 ? f16 : bf16; }

void convert_any(Warp& w, const Instruction& i, Lanes active) {
  const std::int64_t to = i.immediate[0], from = i.immediate[1];
  for_lanes(active, [&](unsigned k) {
    const std::uint64_t a = read_bits(w, i.source(0), i.width_of_source(0), k);
    std::uint64_t y;
    if (from == e4m3x2 || from == e5m2x2) {
      const Format& format = from == e4m3x2 ? e4m3_format : e5m2_format;
      const auto one = [&](std::uint64_t byte) {
        return float_bits(i, half_of_pair(to), {false, false, 0, decode(format, static_cast<unsigned>(byte & 0xffu))});
      };
      y = one(a) | one(a >> 8) << 16;
    } else if (to == e4m3x2 || to == e5m2x2) {
      const Format& format = to == e4m3x2 ? e4m3_format : e5m2_format;
      const auto one = [&](double x) {
        if ((i.flags & relu) && !(x > 0)) x = x != x ? x : 0.0;
        return encode(format, x, Rounding::nearest, true);
      };
      if (from == f32) {
        const std::uint64_t b = read_bits(w, i.source(1), i.width_of_source(1), k);
        y = one(from_bits(static_cast<unsigned>(b))) | one(from_bits(static_cast<unsigned>(a))) << 8;
      } else {
        y = one(load(half_of_pair(from), a & 0xffffu).real) | one(load(half_of_pair(from), a >> 16).real) << 8;
      }
    } else if (to == f16x2 || to == bf16x2) {
      const std::uint64_t b = read_bits(w, i.source(1), i.width_of_source(1), k);
      y = convert(i, half_of_pair(to), from, b) | convert(i, half_of_pair(to), from, a) << 16;
    } else {
      y = convert(i, to, from, a);
    }
    write_bits(w, i.destination(0), i.width_of_destination(0), k, y);
  });
}

// cvt.pack: converts two integers with saturation and packs them into the low bits. The upper bits come from the third
// operand.
void convert_pack(Warp& w, const Instruction& i, Lanes active) {
  const std::int64_t to = i.immediate[0];
  const unsigned n = i.immediate[2] != 0 ? static_cast<unsigned>(i.immediate[2]) : bits_of_integer(to);
  for_lanes(active, [&](unsigned k) {
    const auto one = [&](unsigned source) {
      const std::int64_t x = w.values<std::int32_t>(i.source(source))[k];
      const bool is_signed_result = is_signed(to);
      const std::int64_t high = is_signed_result ? (std::int64_t{1} << (n - 1)) - 1 : (std::int64_t{1} << n) - 1;
      const std::int64_t low = is_signed_result ? -high - 1 : 0;
      return static_cast<std::uint64_t>(std::clamp(x, low, high)) & ((std::uint64_t{1} << n) - 1);
    };
    std::uint64_t y = one(1) | one(0) << n;
    if (i.sources > 2) y |= static_cast<std::uint64_t>(w.values<std::uint32_t>(i.source(2))[k]) << (2 * n);
    w.values<std::uint32_t>(i.destination(0))[k] = static_cast<std::uint32_t>(y);
  });
}

template <class R, class A>
constexpr R plain(A a) {
  return static_cast<R>(a);
}
float from_half(std::uint16_t x) { return f32_of_f16(x); }
std::uint16_t to_half(float x) { return f16_of_f32(x); }
std::uint16_t to_bfloat(float x) { return bf16_of_f32(x); }
template <class T>
constexpr T same(T a) {
  return a;
}

// The most common moves: splitting a register into two halves, or combining two halves into a register.
template <class Half, class Whole>
void split(Warp& w, const Instruction& i, Lanes active) {
  const Whole* const from = w.values<Whole>(i.source(0));
  Half *const low = w.values<Half>(i.destination(0)), *const high = w.values<Half>(i.destination(1));
  for_lanes(active, [&](unsigned k) {
    const Whole whole = from[k];
    low[k] = static_cast<Half>(whole);
    high[k] = static_cast<Half>(whole >> 8 * sizeof(Half));
  });
}
template <class Half, class Whole>
void join(Warp& w, const Instruction& i, Lanes active) {
  const Half *const low = w.values<Half>(i.source(0)), *const high = w.values<Half>(i.source(1));
  Whole* const to = w.values<Whole>(i.destination(0));
  for_lanes(active, [&](unsigned k) { to[k] = low[k] | static_cast<Whole>(Whole{high[k]} << 8 * sizeof(Half)); });
}

// Returns the function that executes a move of this form, or nullptr for other moves.
Execute halving(const Instruction& i) {
  const auto are_whole = [](unsigned count, auto width, auto piece) {
    for (unsigned k = 0; k < count; ++k) {
      if (width(k) != width(0) || piece(k) != width(0)) return false;
    }
    return true;
  };
  if (!are_whole(i.sources, [&](unsigned k) { return i.width_of_source(k); }, [&](unsigned k) { return piece_of_source(i, k); }) ||
      !are_whole(i.destinations, [&](unsigned k) { return i.width_of_destination(k); },
                 [&](unsigned k) { return piece_of_destination(i, k); })) {
    return nullptr;
  }
  const unsigned from = i.width_of_source(0), to = i.width_of_destination(0);
  if (i.sources == 1 && i.destinations == 2 && from == 4 && to == 2) return split<std::uint16_t, std::uint32_t>;
  if (i.sources == 1 && i.destinations == 2 && from == 8 && to == 4) return split<std::uint32_t, std::uint64_t>;
  if (i.sources == 2 && i.destinations == 1 && from == 2 && to == 4) return join<std::uint16_t, std::uint32_t>;
  if (i.sources == 2 && i.destinations == 1 && from == 4 && to == 8) return join<std::uint32_t, std::uint64_t>;
  return nullptr;
}

// Concatenates the bytes of all sources and splits them into the destinations, as for mov.b64 {%r1, %r2}, %rd1.
// Immediates: bytes per destination, bytes per source. An 8-bit value is stored in a 16-bit register whose upper half
// is ignored.
void move_bytes(Warp& w, const Instruction& i, Lanes active) {
  if (const Execute execute = halving(i)) {
    execute(w, i, active);
    return;
  }
  for_lanes(active, [&](unsigned k) {
    unsigned char bytes[64];
    unsigned end = 0;
    for (unsigned s = 0; s < i.sources; ++s) {
      const unsigned piece = piece_of_source(i, s);
      std::memcpy(bytes + end, value_bytes(w, i.source(s), i.width_of_source(s), k), piece);
      end += piece;
    }
    unsigned at = 0;
    for (unsigned d = 0; d < i.destinations; ++d) {
      const unsigned width = i.width_of_destination(d), piece = piece_of_destination(i, d);
      unsigned char* to = value_bytes(w, i.destination(d), width, k);
      std::memset(to, 0, width);
      std::memcpy(to, bytes + at, piece);
      at += piece;
    }
  });
}

constexpr std::uint32_t nearest_only = rounding_mask;

constexpr Row convert_table[] = {
    {"cvt.s64.s32", map1<plain<std::int64_t, std::int32_t>, std::int64_t, std::int32_t>, 0, "8:4"},
    {"cvt.u64.u32", map1<plain<std::uint64_t, std::uint32_t>, std::uint64_t, std::uint32_t>, 0, "8:4"},
    {"cvt.u32.u64", map1<plain<std::uint32_t, std::uint64_t>, std::uint32_t, std::uint64_t>, 0, "4:8"},
    {"cvt.u16.u32", map1<plain<std::uint16_t, std::uint32_t>, std::uint16_t, std::uint32_t>, 0, "2:4"},
    {"cvt.u32.u16", map1<plain<std::uint32_t, std::uint16_t>, std::uint32_t, std::uint16_t>, 0, "4:2"},
    {"cvt.f32.f16", map1<from_half, float, std::uint16_t>, 0, "4:2"},
    {"cvt.rn.f16.f32", map1<to_half, std::uint16_t, float>, nearest_only, "2:4"},
    {"cvt.rn.bf16.f32", map1<to_bfloat, std::uint16_t, float>, nearest_only, "2:4"},
    {"cvt.pack", convert_pack, sat, "4:44*"},
    {"cvt", convert_any, rounding_mask | ftz | sat | relu | satfinite | to_integral, "*:*"},
    {"mov.b16", map1<same<std::uint16_t>, std::uint16_t, std::uint16_t>, 0, "2:2"},
    {"mov.b32", map1<same<std::uint32_t>, std::uint32_t, std::uint32_t>, 0, "4:4"},
    {"mov.b64", map1<same<std::uint64_t>, std::uint64_t, std::uint64_t>, 0, "8:8"},
    {"mov", move_bytes, 0, "*:*"},
};

}  // namespace

std::uint64_t known_of_conversion(Warp& w, const Instruction& i, unsigned lane) {
  const std::int64_t to = i.immediate[0], from = i.immediate[1];
  const auto known = [&](unsigned s) { return known_bits(w, i.source(s), i.width_of_source(s), lane); };
  const auto all = [](std::uint64_t bits, std::uint64_t mask) { return (~bits & mask) == 0; };
  const auto joined = [](bool low, bool high, unsigned bits) {
    const std::uint64_t one = (std::uint64_t{1} << bits) - 1;
    return (low ? one : 0) | (high ? one << bits : 0);
  };
  const bool to_bytes = to == e4m3x2 || to == e5m2x2, from_bytes = from == e4m3x2 || from == e5m2x2;
  if (from_bytes) return joined(all(known(0), 0xff), all(known(0), 0xff00), 16);
  if (to_bytes && from != f32) return joined(all(known(0), 0xffff), all(known(0), 0xffff0000), 8);
  if (to_bytes || to == f16x2 || to == bf16x2) {
    return joined(all(known(1), ~0u), all(known(0), ~0u), to_bytes ? 8 : 16);
  }
  if (!is_integer(from)) return all(known(0), ones_of(i.width_of_source(0))) ? ~std::uint64_t{0} : 0;
  const unsigned bits = bits_of_integer(from);
  const std::uint64_t source_mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  if (!is_integer(to) || (i.flags & sat) != 0) return all(known(0), source_mask) ? ~std::uint64_t{0} : 0;
  // Known bits after a conversion between integers. The bits above the source's width are zeros, or copies of the sign
  // bit, which are known if the sign bit is known.
  const auto extended = [](std::uint64_t x, std::int64_t type) {
    const unsigned unused = 64 - bits_of_integer(type);
    if (unused == 0) return x;
    return is_signed(type) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(x << unused) >> unused)
                           : x | ~(~std::uint64_t{0} >> unused);
  };
  return extended(extended(known(0), from), to);
}

const Rows convert_rows{std::begin(convert_table), std::end(convert_table)};

}  // namespace autosched::emulator::ptx
