// Video instructions: PTX ISA 9.7.17, scalar ones (which operate on one byte, half or word of each operand) and SIMD
// ones (on two halves or four bytes). GPUs since sm_50 have no scalar video instructions: ptxas emulates them in 64-bit
// arithmetic. If results differ from the ISA, this file follows an H100 (ptxas 13.5, 2026-11-27).
#include <algorithm>

#include "isa/ptx.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace video_instructions {

using s64 = std::int64_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;
__extension__ using s128 = __int128;  // type of intermediate results: results of left shifts have up to 65 bits

// In the order of the lists in measurements/emulator/ptx/families/video.py.
enum class Operation { add, sub, absolute_difference, min, max, shift_left, shift_right, average, compare };
enum class Secondary { none, add, min, max };
enum class Comparison { eq, ne, lt, le, gt, ge };

// A bit field of a register.
struct Part {
  unsigned shift, bits;
};
// Two immediates describe a field: its first bit, and its number of bits.
Part part_of(const std::int64_t* immediate) { return {static_cast<unsigned>(immediate[0]), static_cast<unsigned>(immediate[1])}; }

s64 taken(u64 x, Part p, bool is_signed) {
  const u64 above = x << (64 - p.bits - p.shift);
  return is_signed ? static_cast<s64>(above) >> (64 - p.bits) : static_cast<s64>(above >> (64 - p.bits));
}
u32 merged(s128 x, Part p, u32 c) {
  const u32 mask = static_cast<u32>((u64{1} << p.bits) - 1) << p.shift;
  return (static_cast<u32>(x) << p.shift & mask) | (c & ~mask);
}
s128 clamped(s128 x, unsigned bits, bool is_signed) {
  const s128 above = s128{1} << (is_signed ? bits - 1 : bits);
  return std::clamp<s128>(x, is_signed ? -above : s128{0}, above - 1);
}

bool holds(Comparison c, s64 a, s64 b) {
  switch (c) {
    case Comparison::eq: return a == b;
    case Comparison::ne: return a != b;
    case Comparison::lt: return a < b;
    case Comparison::le: return a <= b;
    case Comparison::gt: return a > b;
    default: return a >= b;
  }
}

s128 primary(Operation o, Comparison c, s64 a, s64 b) {
  switch (o) {
    case Operation::add: return a + b;
    case Operation::sub: return a - b;
    case Operation::absolute_difference: return a < b ? b - a : a - b;
    case Operation::min: return std::min(a, b);
    case Operation::max: return std::max(a, b);
    case Operation::shift_left: return s128{a} << b;  // b is at most 32
    case Operation::shift_right: return a >> b;
    case Operation::average: return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    default: return holds(c, a, b) ? 1 : 0;
  }
}

// Immediates that scalar and SIMD instructions have in common: operation, comparison, whether d, a and b are signed,
// secondary operation.
struct Common {
  Operation operation;
  Comparison comparison;
  bool signed_d, signed_a, signed_b;
  Secondary secondary;
};
constexpr unsigned common_immediates = 6;
Common common(const Instruction& i) {
  return {static_cast<Operation>(i.immediate[0]), static_cast<Comparison>(i.immediate[1]), i.immediate[2] != 0, i.immediate[3] != 0,
          i.immediate[4] != 0,                    static_cast<Secondary>(i.immediate[5])};
}

bool is_shift(Operation o) { return o == Operation::shift_left || o == Operation::shift_right; }

// Saturates the result of a scalar instruction. If the destination is a byte or a half of d, an out-of-range result
// becomes the largest value of this field, even if the result is negative. Unsigned results of 32 bits have no upper
// bound. Results of shifts are truncated to 34 bits, sign-extended, and clamped to 32 bits, even if only a byte or a
// half of d is written.
s128 saturated(s128 x, const Common& v, Part to) {
  if (is_shift(v.operation)) return clamped(static_cast<s64>(static_cast<u64>(x) << 30) >> 30, 32, v.signed_d);
  if (to.bits < 32) {
    const s128 largest = (s128{1} << (v.signed_d ? to.bits - 1 : to.bits)) - 1;
    return x < 0 ? largest : std::min(x, largest);
  }
  return v.signed_d ? clamped(x, 32, true) : std::max(x, s128{0});
}

// Applies the secondary operation to the result `x` and operand c. Minimum and maximum compare 64-bit values. The
// values are signed if d is signed or, for an instruction that compares a with b, if a is signed. With `narrow`, `x` is
// first truncated to 32 bits and sign-extended, regardless of the type of d.
u32 with_third(s128 x, const Common& v, bool narrow, u32 third) {
  const bool is_signed = v.operation == Operation::compare ? v.signed_a : v.signed_d;
  const s64 wide = narrow ? static_cast<std::int32_t>(x) : static_cast<s64>(x);
  const s128 first = is_signed ? s128{wide} : s128{static_cast<u64>(wide)}, c = taken(third, {0, 32}, is_signed);
  switch (v.secondary) {
    case Secondary::add: return static_cast<u32>(x) + third;
    case Secondary::min: return static_cast<u32>(std::min(first, c));
    case Secondary::max: return static_cast<u32>(std::max(first, c));
    default: return static_cast<u32>(x);
  }
}

// After the common immediates: the bit fields of d, a and b, and whether shift amounts wrap (otherwise they are
// clamped).
void scalar(Warp& w, const Instruction& i, Lanes active) {
  const Common v = common(i);
  const std::int64_t* const further = i.immediate + common_immediates;
  const Part to = part_of(further), of_a = part_of(further + 2), of_b = part_of(further + 4);
  const bool shifts = is_shift(v.operation), wraps = further[6] != 0;
  const bool narrow = shifts ? (i.flags & sat) != 0 : v.operation == Operation::add || v.operation == Operation::sub;
  for_lanes(active, [&](unsigned k) {
    const u32 c = w.values<u32>(i.source(2))[k];
    const s64 a = taken(w.values<u32>(i.source(0))[k], of_a, v.signed_a);
    s64 b = taken(w.values<u32>(i.source(1))[k], of_b, v.signed_b);
    if (shifts) b = wraps ? b & 31 : std::min<s64>(b, 32);
    s128 x = primary(v.operation, v.comparison, a, b);
    if (i.flags & sat) x = saturated(x, v, to);
    w.values<u32>(i.destination(0))[k] = to.bits < 32 ? merged(x, to, c) : with_third(x, v, narrow, c);
  });
}

// After the common immediates: the number of fields per register (2 or 4); a mask of the fields of d to write; for each
// field of d, the index of the field that is its operand a; for each field of d, the index of the field that is its
// operand b. Indices count the fields of the register pair (b, a), from the lowest field of register a.
void simd(Warp& w, const Instruction& i, Lanes active) {
  const Common v = common(i);
  const std::int64_t* const further = i.immediate + common_immediates;
  const auto parts = static_cast<unsigned>(further[0]), bits = 32 / parts;
  const std::int64_t *const of_a = further + 2, *const of_b = of_a + parts;
  for_lanes(active, [&](unsigned k) {
    const u64 both = w.values<u32>(i.source(0))[k] | static_cast<u64>(w.values<u32>(i.source(1))[k]) << 32;
    u32 d = w.values<u32>(i.source(2))[k];
    for (unsigned p = 0; p < parts; ++p) {
      if ((further[1] >> p & 1) == 0) continue;
      const s64 a = taken(both, {static_cast<unsigned>(of_a[p]) * bits, bits}, v.signed_a);
      const s64 b = taken(both, {static_cast<unsigned>(of_b[p]) * bits, bits}, v.signed_b);
      s128 x = primary(v.operation, v.comparison, a, b);
      if (i.flags & sat) x = clamped(x, bits, v.signed_d);
      d = v.secondary == Secondary::add ? d + static_cast<u32>(x) : merged(x, {p * bits, bits}, d);
    }
    w.values<u32>(i.destination(0))[k] = d;
  });
}

// vmad: (a * b + c) >> shift. Immediates: whether a and b are signed, whether the product is negated, whether c is
// negated, whether 1 is added; the shift; the bit fields of a and b. c is always signed, and so are a and b if all 32
// bits are used. An unsigned sum is shifted as a 64-bit value.
void multiply_add(Warp& w, const Instruction& i, Lanes active) {
  const bool signed_a = i.immediate[0] != 0, signed_b = i.immediate[1] != 0, minus_product = i.immediate[2] != 0,
             minus_c = i.immediate[3] != 0, plus_one = i.immediate[4] != 0;
  const auto shift = static_cast<unsigned>(i.immediate[5]);
  const Part of_a = part_of(i.immediate + 6), of_b = part_of(i.immediate + 8);
  const bool signed_d = signed_a || signed_b || minus_product || minus_c;
  for_lanes(active, [&](unsigned k) {
    const s64 a = taken(w.values<u32>(i.source(0))[k], of_a, signed_a || of_a.bits == 32);
    const s64 b = taken(w.values<u32>(i.source(1))[k], of_b, signed_b || of_b.bits == 32);
    const s64 c = static_cast<std::int32_t>(w.values<u32>(i.source(2))[k]);
    const s64 sum = (minus_product ? -(a * b) : a * b) + (minus_c ? -c : c) + (plus_one ? 1 : 0);
    s128 x = signed_d || shift == 0 ? sum >> shift : static_cast<s64>(static_cast<u64>(sum) >> shift);
    if (i.flags & sat) x = clamped(x, 32, signed_d);
    w.values<u32>(i.destination(0))[k] = static_cast<u32>(x);
  });
}

constexpr Row rows[] = {
    {"video.scalar", scalar, sat, "4:444"},
    {"video.simd", simd, sat, "4:444"},
    {"vmad", multiply_add, sat, "4:444"},
};

}  // namespace video_instructions
}  // namespace

const Rows video_rows{std::begin(video_instructions::rows), std::end(video_instructions::rows)};

}  // namespace autosched::emulator::ptx
