// Arithmetic of f16, bf16 and pairs of them: PTX ISA 9.7.4. Sums are rounded once, from an exact or odd-rounded f64.
#include <cmath>

#include "isa/map.hpp"
#include "isa/numbers/round.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace half_instructions {

using Half = std::uint16_t;

struct F16 {
  static double load(Half x) { return f32_of_f16(x); }
  static Half store(double x) { return static_cast<Half>(encode(f16_format, x, Rounding::nearest)); }
  static Half nan() { return 0x7fff; }
  static constexpr Half smallest_normal = 0x0400;
  static constexpr double tanh_error = 0x1p-10, ex2_error = 0x1p-9;
};
struct BF16 {
  static double load(Half x) { return f32_of_bf16(x); }
  static Half store(double x) { return static_cast<Half>(encode(bf16_format, x, Rounding::nearest)); }
  static Half nan() { return 0x7fff; }
  static constexpr Half smallest_normal = 0x0080;
  static constexpr double tanh_error = 0x1p-8, ex2_error = 0x1p-7;
};

template <class T>
Half before(Half x, std::uint32_t flags) {
  return (flags & ftz) && (x & 0x7fffu) < T::smallest_normal ? x & 0x8000u : x;
}
template <class T>
Half after(Half y, std::uint32_t flags) {
  if ((flags & ftz) && (y & 0x7fffu) < T::smallest_normal) y &= 0x8000u;
  if (flags & (sat | relu)) {
    const double x = T::load(y);
    if (x != x) return flags & sat ? Half{0} : T::nan();
    if (x <= 0) return 0;
    if ((flags & sat) && x > 1) return T::store(1);
  }
  return y;
}

template <class T>
double fused(double a, double b, double c) {
  // The product of two 11-bit mantissas is exact in f64.
  return add_odd(a * b, c);
}

enum class Op { add, sub, mul, fma, neg, abs, min, max, ex2, tanh };

template <class T, Op O>
Half compute(Machine& machine, Half x, Half y, Half z, std::uint32_t flags) {
  x = before<T>(x, flags);
  y = before<T>(y, flags);
  z = before<T>(z, flags);
  const double a = T::load(x), b = T::load(y), c = T::load(z);
  // An H100 computes abs and neg as sums with -0. So the result for a NaN is the canonical NaN.
  if ((O == Op::neg || O == Op::abs) && a != a) return T::nan();
  switch (O) {
    case Op::add: return after<T>(T::store(add_odd(a, b)), flags);
    case Op::sub: return after<T>(T::store(add_odd(a, -b)), flags);
    case Op::mul: return after<T>(T::store(a * b), flags);
    case Op::fma: return after<T>(T::store(fused<T>(a, b, c)), flags);
    case Op::neg: return static_cast<Half>(x ^ 0x8000u);
    case Op::abs: return static_cast<Half>(x & 0x7fffu);
    case Op::ex2: return after<T>(T::store(approximated(machine, std::exp2(a), T::ex2_error)), flags);
    case Op::tanh: return after<T>(T::store(approximated(machine, std::tanh(a), T::tanh_error)), flags);
    default: break;
  }
  const bool largest = O == Op::max;
  const bool negative = (x ^ y) >> 15 & 1u;
  if (flags & xorsign) x &= 0x7fffu, y &= 0x7fffu;
  const double p = T::load(x), q = T::load(y);
  Half r;
  if (p != p || q != q) {
    r = (flags & nan_wins) || (p != p && q != q) ? T::nan() : p != p ? y : x;
  } else if (p == 0 && q == 0) {
    r = (x >> 15 != 0) == largest ? y : x;
  } else {
    r = (p < q) == largest ? y : x;
  }
  if (flags & xorsign) r = static_cast<Half>((r & 0x7fffu) | (negative ? 0x8000u : 0u));
  return r;
}

template <class T, Op O, unsigned Values>
void execute(Warp& w, const Instruction& i, Lanes active) {
  Half* d = w.values<Half>(i.destination(0));
  const Half* a = w.values<Half>(i.source(0));
  const Half* b = w.values<Half>(i.source(i.sources > 1 ? 1 : 0));
  const Half* c = w.values<Half>(i.source(i.sources > 2 ? 2 : 0));
  for_lanes(active, [&](unsigned lane) {
    for (unsigned k = lane * Values; k < (lane + 1) * Values; ++k) d[k] = compute<T, O>(*w.machine, a[k], b[k], c[k], i.flags);
  });
}

constexpr std::uint32_t arithmetic = rounding_mask | ftz | sat | relu;
constexpr std::uint32_t extremes = ftz | nan_wins | xorsign;

// fma.oob: elements out of bounds are marked by one NaN and contribute nothing; other NaNs propagate.
template <class T, unsigned Values>
void execute_within(Warp& w, const Instruction& i, Lanes active) {
  Half* d = w.values<Half>(i.destination(0));
  const Half *a = w.values<Half>(i.source(0)), *b = w.values<Half>(i.source(1)), *c = w.values<Half>(i.source(2));
  for_lanes(active, [&](unsigned lane) {
    for (unsigned k = lane * Values; k < (lane + 1) * Values; ++k) {
      d[k] = a[k] == nan_outside_tensor || b[k] == nan_outside_tensor
                 ? Half{0}
                 : compute<T, Op::fma>(*w.machine, a[k], b[k], c[k], i.flags);
    }
  });
}

#define OPERATION(NAME, OP, FLAGS, SINGLE, PAIR)                        \
  {NAME ".f16", execute<F16, Op::OP, 1>, FLAGS, SINGLE},               \
  {NAME ".f16x2", execute<F16, Op::OP, 2>, FLAGS, PAIR},               \
  {NAME ".bf16", execute<BF16, Op::OP, 1>, FLAGS, SINGLE},             \
  {NAME ".bf16x2", execute<BF16, Op::OP, 2>, FLAGS, PAIR}

constexpr Row rows[] = {
    OPERATION("add", add, arithmetic, "2:22", "4:44"), OPERATION("sub", sub, arithmetic, "2:22", "4:44"),
    OPERATION("mul", mul, arithmetic, "2:22", "4:44"), OPERATION("fma", fma, arithmetic, "2:222", "4:444"),
    {"fma.oob.f16", execute_within<F16, 1>, arithmetic, "2:222"}, {"fma.oob.f16x2", execute_within<F16, 2>, arithmetic, "4:444"},
    {"fma.oob.bf16", execute_within<BF16, 1>, arithmetic, "2:222"}, {"fma.oob.bf16x2", execute_within<BF16, 2>, arithmetic, "4:444"},
    OPERATION("neg", neg, ftz, "2:2", "4:4"), OPERATION("abs", abs, ftz, "2:2", "4:4"),
    OPERATION("min", min, extremes, "2:22", "4:44"), OPERATION("max", max, extremes, "2:22", "4:44"),
    OPERATION("ex2", ex2, approx | ftz, "2:2", "4:4"), OPERATION("tanh", tanh, approx, "2:2", "4:4"),
};

}  // namespace half_instructions
}  // namespace

const Rows half_rows{std::begin(half_instructions::rows), std::end(half_instructions::rows)};

}  // namespace autosched::emulator::ptx
