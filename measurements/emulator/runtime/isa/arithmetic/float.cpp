// Floating-point arithmetic in f32 and f64: PTX ISA 9.7.3. Approximate functions return the rounded exact result. With
// program.perturb, their results differ from it by the largest error that the PTX ISA states.
#include <cmath>

#include "isa/map.hpp"
#include "isa/numbers/round.hpp"

namespace autosched::emulator::ptx {
namespace {
namespace float_instructions {

constexpr std::uint32_t rounded = rounding_mask, usual = rounding_mask | ftz | sat;

// `before` applies .ftz to a source; `after` applies .ftz and .sat to a result.
template <class T>
inline T before(T x, std::uint32_t flags) {
  if constexpr (sizeof(T) == 4) {
    if (flags & ftz) return flush(x);
  }
  return x;
}
template <class T>
inline T after(T y, std::uint32_t flags) {
  if constexpr (sizeof(T) == 4) {
    if (flags & ftz) y = flush(y);
    if (y != y) y = canonical(y);
  }
  if (flags & sat) y = y > 0 ? (y < 1 ? y : T{1}) : T{0};  // NaN becomes 0, too
  return y;
}

// Applies F to the sources in each lane, with .ftz, .sat and the rounding of the instruction.
template <class T, unsigned Count, class F>
void execute(Warp& w, const Instruction& i, Lanes active, F f) {
  T* d = w.values<T>(i.destination(0));
  const T* a = w.values<T>(i.source(0));
  const T* b = w.values<T>(i.source(Count > 1 ? 1 : 0));
  const T* c = w.values<T>(i.source(Count > 2 ? 2 : 0));
  const Rounding mode = rounding(i.flags);
  const bool nearest = mode == Rounding::none || mode == Rounding::nearest;
  if ((i.flags & (ftz | sat)) == 0 && nearest && active == all_lanes) {
    T result[warp_size];
    for (unsigned k = 0; k < warp_size; ++k) {
      const T y = f(a[k], b[k], c[k]);
      result[k] = y != y ? static_cast<T>(sizeof(T) == 4 ? canonical_nan_bits_as_float() : y) : y;
    }
    std::memcpy(d, result, sizeof result);
    return;
  }
  T result[warp_size];
  {
    const HostRounding scope(mode);
    T* kept = result;
    asm volatile("" : "+r"(kept)::"memory");
    for_lanes(active, [&](unsigned k) {
      kept[k] = f(before(a[k], i.flags), before(b[k], i.flags), before(c[k], i.flags));
    });
  }
  for_lanes(active, [&](unsigned k) { d[k] = after(result[k], i.flags); });
}

#define FLOAT_FUNCTION(NAME, COUNT, RESULT)                            \
  template <class T>                                                   \
  void NAME(Warp& w, const Instruction& i, Lanes active) {             \
    execute<T, COUNT>(w, i, active, [](T a, T b, T c) -> T {           \
      static_cast<void>(b), static_cast<void>(c);                      \
      return RESULT;                                                   \
    });                                                                \
  }
FLOAT_FUNCTION(add, 2, a + b)
FLOAT_FUNCTION(sub, 2, a - b)
FLOAT_FUNCTION(mul, 2, a * b)
FLOAT_FUNCTION(fma_, 3, std::fma(a, b, c))
FLOAT_FUNCTION(divide_exact, 2, a / b)
FLOAT_FUNCTION(square_root_exact, 1, std::sqrt(a))
FLOAT_FUNCTION(reciprocal_exact, 1, T{1} / a)
#undef FLOAT_FUNCTION

// Applies a function to packed pairs of f32 in 64-bit registers (sm_100 and later).
template <unsigned Count, class F>
void execute_pair(Warp& w, const Instruction& i, Lanes active, F f) {
  float* d = w.values<float>(i.destination(0));
  const float* a = w.values<float>(i.source(0));
  const float* b = w.values<float>(i.source(1));
  const float* c = w.values<float>(i.source(Count > 2 ? 2 : 0));
  float result[2 * warp_size];
  {
    const HostRounding scope(rounding(i.flags));
    float* kept = result;
    asm volatile("" : "+r"(kept)::"memory");
    for_lanes(active, [&](unsigned lane) {
      for (unsigned k = 2 * lane; k < 2 * lane + 2; ++k) {
        kept[k] = f(before(a[k], i.flags), before(b[k], i.flags), before(c[k], i.flags));
      }
    });
  }
  for_lanes(active, [&](unsigned lane) {
    for (unsigned k = 2 * lane; k < 2 * lane + 2; ++k) d[k] = after(result[k], i.flags);
  });
}
#define PAIR_FUNCTION(NAME, COUNT, RESULT)                                 \
  void NAME(Warp& w, const Instruction& i, Lanes active) {                 \
    execute_pair<COUNT>(w, i, active, [](float a, float b, float c) {      \
      static_cast<void>(c);                                                \
      return RESULT;                                                       \
    });                                                                    \
  }
PAIR_FUNCTION(add_pair, 2, a + b)
PAIR_FUNCTION(sub_pair, 2, a - b)
PAIR_FUNCTION(mul_pair, 2, a * b)
PAIR_FUNCTION(fma_pair, 3, std::fma(a, b, c))
#undef PAIR_FUNCTION

// On an H100, abs computes |x| + -0, and neg computes -x + -0. So a NaN becomes the canonical NaN in f32, and keeps its
// sign in f64.
template <class T, class F>
void with_sign(Warp& w, const Instruction& i, Lanes active, F f) {
  for_lanes(active, [&](unsigned k) {
    const T x = before(w.values<T>(i.source(0))[k], i.flags);
    w.values<T>(i.destination(0))[k] = x == x ? f(x) : after(x + T{0}, i.flags);
  });
}
template <class T>
void absolute(Warp& w, const Instruction& i, Lanes active) {
  with_sign<T>(w, i, active, [](T x) { return std::fabs(x); });
}
template <class T>
void negate(Warp& w, const Instruction& i, Lanes active) {
  with_sign<T>(w, i, active, [](T x) { return -x; });
}
template <class T>
void copy_sign(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    w.values<T>(i.destination(0))[k] = std::copysign(w.values<T>(i.source(1))[k], w.values<T>(i.source(0))[k]);
  });
}

template <class T>
T extreme(T a, T b, bool largest, bool nan_is_result) {
  if (a != a || b != b) {
    if (nan_is_result || (a != a && b != b)) {
      return sizeof(T) == 4 ? static_cast<T>(canonical_nan_bits_as_float()) : static_cast<T>(NAN);
    }
    return a != a ? b : a;
  }
  if (a == 0 && b == 0) return std::signbit(a) == largest ? b : a;  // -0 is less than +0
  return (a < b) == largest ? b : a;
}
template <class T, bool Largest, bool OfMagnitudes = false>
void min_max(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    T a = before(w.values<T>(i.source(0))[k], i.flags), b = before(w.values<T>(i.source(1))[k], i.flags);
    const bool sign = std::signbit(a) != std::signbit(b);
    if (OfMagnitudes || (i.flags & xorsign)) a = std::fabs(a), b = std::fabs(b);
    T y = extreme(a, b, Largest, (i.flags & nan_wins) != 0);
    if (i.sources > 2) {
      const T c = before(w.values<T>(i.source(2))[k], i.flags);
      y = extreme(y, OfMagnitudes ? std::fabs(c) : c, Largest, (i.flags & nan_wins) != 0);
    }
    if (i.flags & xorsign) y = std::copysign(y, sign ? T{-1} : T{1});
    w.values<T>(i.destination(0))[k] = y;
  });
}

// Computes a function of one f32 operand. The computation uses f64, and its result is rounded to f32. `relative` and
// `absolute` are the largest errors that the PTX ISA states for the instruction.
template <class F>
void function(Warp& w, const Instruction& i, Lanes active, double relative, double absolute, F f) {
  for_lanes(active, [&](unsigned k) {
    const float x = before(w.values<float>(i.source(0))[k], i.flags);
    const double exact = f(static_cast<double>(x));
    w.values<float>(i.destination(0))[k] =
        after(static_cast<float>(approximated(*w.machine, exact, relative, absolute)), i.flags);
  });
}
constexpr double ulp = 0x1p-23;  // largest unit in the last place of an f32, relative to the value

void ex2(Warp& w, const Instruction& i, Lanes l) {
  function(w, i, l, 2 * ulp, 0, [](double x) { return std::exp2(x); });
}
void lg2(Warp& w, const Instruction& i, Lanes active) {
  for_lanes(active, [&](unsigned k) {
    const float x = before(w.values<float>(i.source(0))[k], i.flags);
    const double exact = std::log2(static_cast<double>(x));
    const bool middle = x > 0.5f && x < 2.0f;
    const double y = approximated(*w.machine, exact, middle ? 0 : 0x1p-22, middle ? 0x1p-22 : 0);
    w.values<float>(i.destination(0))[k] = after(static_cast<float>(y), i.flags);
  });
}
void sine(Warp& w, const Instruction& i, Lanes l) {
  function(w, i, l, 0, 0x1p-20, [](double x) { return std::sin(x); });
}
void cosine(Warp& w, const Instruction& i, Lanes l) {
  function(w, i, l, 0, 0x1p-20, [](double x) { return std::cos(x); });
}
void hyperbolic_tangent(Warp& w, const Instruction& i, Lanes l) {
  function(w, i, l, 0x1p-11, 0, [](double x) { return std::tanh(x); });
}
void rsqrt_f32(Warp& w, const Instruction& i, Lanes l) {
  function(w, i, l, 0x1p-22, 0, [](double x) { return 1.0 / std::sqrt(x); });
}
void sqrt_f32(Warp& w, const Instruction& i, Lanes l) {
  if (i.flags & approx) return function(w, i, l, 0x1p-23, 0, [](double x) { return std::sqrt(x); });
  square_root_exact<float>(w, i, l);
}
void rcp_f32(Warp& w, const Instruction& i, Lanes l) {
  if (i.flags & approx) return function(w, i, l, ulp, 0, [](double x) { return 1.0 / x; });
  reciprocal_exact<float>(w, i, l);
}
// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64, whose results have only the upper 20 bits of the mantissa.
template <class F>
void upper_half(Warp& w, const Instruction& i, Lanes active, F f) {
  for_lanes(active, [&](unsigned k) {
    const double x = w.values<double>(i.source(0))[k];
    const double y = f(std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x);
    const auto bits = __builtin_bit_cast(std::uint64_t, approximated(*w.machine, y, 0x1p-20)) & 0xffffffff00000000ull;
    w.values<double>(i.destination(0))[k] = __builtin_bit_cast(double, bits);
  });
}
void rcp_f64(Warp& w, const Instruction& i, Lanes l) {
  if (i.flags & approx) return upper_half(w, i, l, [](double x) { return 1.0 / x; });
  reciprocal_exact<double>(w, i, l);
}
void rsqrt_f64(Warp& w, const Instruction& i, Lanes l) {
  if (i.flags & ftz) return upper_half(w, i, l, [](double x) { return 1.0 / std::sqrt(x); });
  for_lanes(l, [&](unsigned k) {
    w.values<double>(i.destination(0))[k] = approximated(*w.machine, 1.0 / std::sqrt(w.values<double>(i.source(0))[k]), 0x1p-51);
  });
}

// div.approx: a * (1 / b), with an error of 2 ulp for |b| in [2^-126, 2^126]. For larger |b| the result is 0, or NaN if
// a is infinite. div.full: an error of 2 ulp for all b.
void div_f32(Warp& w, const Instruction& i, Lanes active) {
  if ((i.flags & (approx | full)) == 0) return divide_exact<float>(w, i, active);
  for_lanes(active, [&](unsigned k) {
    const float a = before(w.values<float>(i.source(0))[k], i.flags);
    const float b = before(w.values<float>(i.source(1))[k], i.flags);
    double y = approximated(*w.machine, static_cast<double>(a) / b, 2 * ulp);
    if ((i.flags & approx) && std::isfinite(b) && std::fabs(b) > 0x1p126f) {
      y = std::isinf(a) ? NAN : std::copysign(0.0, static_cast<double>(a) * b);
    }
    w.values<float>(i.destination(0))[k] = after(static_cast<float>(y), i.flags);
  });
}

template <class T>
void test_property(Warp& w, const Instruction& i, Lanes active) {
  Lanes result = 0;
  for_lanes(active, [&](unsigned k) {
    const T x = w.values<T>(i.source(0))[k];
    bool y = false;
    switch (i.immediate[0]) {
      case 0: y = std::isfinite(x); break;
      case 1: y = std::isinf(x); break;
      case 2: y = !std::isnan(x); break;
      case 3: y = std::isnan(x); break;
      case 4: y = std::isnormal(x); break;
      default: y = std::fpclassify(x) == FP_SUBNORMAL;
    }
    result |= static_cast<Lanes>(y) << k;
  });
  Lanes& d = w.head(i.destination(0)).bits;
  d = (d & ~active) | result;
}

constexpr Row rows[] = {
    {"add.f32", add<float>, usual, "4:44"}, {"add.f64", add<double>, rounded, "8:88"},
    {"sub.f32", sub<float>, usual, "4:44"}, {"sub.f64", sub<double>, rounded, "8:88"},
    {"mul.f32", mul<float>, usual, "4:44"}, {"mul.f64", mul<double>, rounded, "8:88"},
    {"fma.f32", fma_<float>, usual, "4:444"}, {"fma.f64", fma_<double>, rounded, "8:888"},
    {"add.f32x2", add_pair, rounded | ftz, "8:88"}, {"sub.f32x2", sub_pair, rounded | ftz, "8:88"},
    {"mul.f32x2", mul_pair, rounded | ftz, "8:88"}, {"fma.f32x2", fma_pair, rounded | ftz, "8:888"},
    {"mad.f32", fma_<float>, usual, "4:444"}, {"mad.f64", fma_<double>, rounded, "8:888"},
    {"div.f32", div_f32, rounded | ftz | approx | full, "4:44"}, {"div.f64", divide_exact<double>, rounded, "8:88"},
    {"sqrt.f32", sqrt_f32, rounded | ftz | approx, "4:4"}, {"sqrt.f64", square_root_exact<double>, rounded, "8:8"},
    {"rcp.f32", rcp_f32, rounded | ftz | approx, "4:4"}, {"rcp.f64", rcp_f64, rounded | ftz | approx, "8:8"},
    {"rsqrt.f32", rsqrt_f32, ftz | approx, "4:4"}, {"rsqrt.f64", rsqrt_f64, ftz | approx, "8:8"},
    {"ex2.f32", ex2, ftz | approx, "4:4"}, {"lg2.f32", lg2, ftz | approx, "4:4"},
    {"sin.f32", sine, ftz | approx, "4:4"}, {"cos.f32", cosine, ftz | approx, "4:4"},
    {"tanh.f32", hyperbolic_tangent, approx, "4:4"},
    {"abs.f32", absolute<float>, ftz, "4:4"}, {"abs.f64", absolute<double>, 0, "8:8"},
    {"neg.f32", negate<float>, ftz, "4:4"}, {"neg.f64", negate<double>, 0, "8:8"},
    {"copysign.f32", copy_sign<float>, 0, "4:44"}, {"copysign.f64", copy_sign<double>, 0, "8:88"},
    {"min.f32", min_max<float, false>, ftz | nan_wins | xorsign, "4:44"},
    {"min.f64", min_max<double, false>, 0, "8:88"},
    {"max.f32", min_max<float, true>, ftz | nan_wins | xorsign, "4:44"},
    {"max.f64", min_max<double, true>, 0, "8:88"},
    {"min3.f32", min_max<float, false>, ftz | nan_wins | xorsign, "4:444"},
    {"max3.f32", min_max<float, true>, ftz | nan_wins | xorsign, "4:444"},
    {"min3.abs.f32", min_max<float, false, true>, ftz | nan_wins, "4:444"},
    {"max3.abs.f32", min_max<float, true, true>, ftz | nan_wins, "4:444"},
    {"testp.f32", test_property<float>, 0, "0:4"}, {"testp.f64", test_property<double>, 0, "0:8"},
};

}  // namespace float_instructions
}  // namespace

const Rows float_rows{std::begin(float_instructions::rows), std::end(float_instructions::rows)};

}  // namespace autosched::emulator::ptx
