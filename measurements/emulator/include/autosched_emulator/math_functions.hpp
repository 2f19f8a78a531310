// CUDA's functions of numbers. The fast variants (__expf and so on) are the accurate functions here.
//
// What <cmath> would bring into the global namespace, such as sqrt(float), is a template here: a kernel that includes
// that header gets the header's functions, without a conflict.
#pragma once

namespace autosched::emulator {

template <class T, class U>
concept Same = __is_same(T, U);
template <class T>
concept Floating = Same<T, float> || Same<T, double>;
template <class T>
concept Number = Floating<T> || requires(T x, int* p) { p + x; };  // what a pointer can be added to is an integer

}  // namespace autosched::emulator

extern "C" {
int abs(int) noexcept;
int printf(const char*, ...);  // what a kernel prints goes nowhere
#define AUTOSCHED_FUNCTION_1(NAME)    \
  float NAME##f(float) noexcept;      \
  double NAME(double) noexcept;       \
  }                                   \
  template <autosched::emulator::Same<float> T> \
  inline T NAME(T x) {                \
    return NAME##f(x);                \
  }                                   \
  extern "C" {
#define AUTOSCHED_FUNCTION_2(NAME)      \
  float NAME##f(float, float) noexcept; \
  double NAME(double, double) noexcept; \
  }                                     \
  template <autosched::emulator::Same<float> T>   \
  inline T NAME(T x, T y) {             \
    return NAME##f(x, y);               \
  }                                     \
  extern "C" {
AUTOSCHED_FUNCTION_1(sqrt)
AUTOSCHED_FUNCTION_1(cbrt)
AUTOSCHED_FUNCTION_1(exp)
AUTOSCHED_FUNCTION_1(exp2)
AUTOSCHED_FUNCTION_1(exp10)
AUTOSCHED_FUNCTION_1(expm1)
AUTOSCHED_FUNCTION_1(log)
AUTOSCHED_FUNCTION_1(log2)
AUTOSCHED_FUNCTION_1(log10)
AUTOSCHED_FUNCTION_1(log1p)
AUTOSCHED_FUNCTION_1(sin)
AUTOSCHED_FUNCTION_1(cos)
AUTOSCHED_FUNCTION_1(tan)
AUTOSCHED_FUNCTION_1(asin)
AUTOSCHED_FUNCTION_1(acos)
AUTOSCHED_FUNCTION_1(atan)
AUTOSCHED_FUNCTION_1(sinh)
AUTOSCHED_FUNCTION_1(cosh)
AUTOSCHED_FUNCTION_1(tanh)
AUTOSCHED_FUNCTION_1(erf)
AUTOSCHED_FUNCTION_1(erfc)
AUTOSCHED_FUNCTION_1(tgamma)
AUTOSCHED_FUNCTION_1(lgamma)
AUTOSCHED_FUNCTION_1(fabs)
AUTOSCHED_FUNCTION_1(floor)
AUTOSCHED_FUNCTION_1(ceil)
AUTOSCHED_FUNCTION_1(trunc)
AUTOSCHED_FUNCTION_1(round)
AUTOSCHED_FUNCTION_1(rint)
AUTOSCHED_FUNCTION_1(nearbyint)
AUTOSCHED_FUNCTION_2(pow)
AUTOSCHED_FUNCTION_2(fmod)
AUTOSCHED_FUNCTION_2(atan2)
AUTOSCHED_FUNCTION_2(hypot)
AUTOSCHED_FUNCTION_2(copysign)
AUTOSCHED_FUNCTION_2(fdim)
AUTOSCHED_FUNCTION_2(fmax)
AUTOSCHED_FUNCTION_2(fmin)
#undef AUTOSCHED_FUNCTION_1
#undef AUTOSCHED_FUNCTION_2
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float ldexpf(float, int) noexcept;
double ldexp(double, int) noexcept;
long lrintf(float) noexcept;
long lroundf(float) noexcept;
void sincosf(float, float*, float*) noexcept;
void sincos(double, double*, double*) noexcept;
}

template <autosched::emulator::Same<float> T>
inline T fma(T x, T y, T z) {
  return fmaf(x, y, z);
}
template <autosched::emulator::Floating T>
inline bool isnan(T x) {
  return __builtin_isnan(x);
}
template <autosched::emulator::Floating T>
inline bool isinf(T x) {
  return __builtin_isinf(x);
}
template <autosched::emulator::Floating T>
inline bool isfinite(T x) {
  return __builtin_isfinite(x);
}
template <autosched::emulator::Floating T>
inline T abs(T x) {
  return x < 0 ? -x : x == 0 ? T(0) : x;
}
template <class T>
  requires autosched::emulator::Same<T, long> || autosched::emulator::Same<T, long long>
inline T abs(T x) {
  return x < 0 ? -x : x;
}
// Floating-point ones return the operand that is a number, as fminf does; integers are converted as by `a + b`.
template <autosched::emulator::Number A, autosched::emulator::Number B>
constexpr auto min(A a, B b) -> decltype(a + b) {
  using T = decltype(a + b);
  const T x = a, y = b;
  return y < x || x != x ? y : x;
}
template <autosched::emulator::Number A, autosched::emulator::Number B>
constexpr auto max(A a, B b) -> decltype(a + b) {
  using T = decltype(a + b);
  const T x = a, y = b;
  return x < y || x != x ? y : x;
}
inline float rsqrtf(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
// Macros, because the host's <cmath> has functions of these names.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __sincosf sincosf
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }

// Conversions: to nearest (ties to even), down, up, towards zero. What does not fit is the nearest that does.
namespace autosched::emulator {
template <class Integer, class Real>
inline Integer to_integer(Real x) {
  constexpr Integer least = static_cast<Integer>(-1) < 0 ? static_cast<Integer>(1ull << (8 * sizeof(Integer) - 1)) : 0;
  constexpr Integer most = static_cast<Integer>(~least);
  if (x != x) return 0;
  if (x <= static_cast<Real>(least)) return least;
  if (x >= static_cast<Real>(most)) return most;
  return static_cast<Integer>(x);
}
}  // namespace autosched::emulator
inline int __float2int_rn(float x) { return autosched::emulator::to_integer<int>(rintf(x)); }
inline int __float2int_rd(float x) { return autosched::emulator::to_integer<int>(floorf(x)); }
inline int __float2int_ru(float x) { return autosched::emulator::to_integer<int>(ceilf(x)); }
inline int __float2int_rz(float x) { return autosched::emulator::to_integer<int>(x); }
inline unsigned __float2uint_rn(float x) { return autosched::emulator::to_integer<unsigned>(rintf(x)); }
inline unsigned __float2uint_rd(float x) { return autosched::emulator::to_integer<unsigned>(floorf(x)); }
inline unsigned __float2uint_rz(float x) { return autosched::emulator::to_integer<unsigned>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// Bits.
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
// Byte i of the result is the one of x (0 to 3) and y (4 to 7) that nibble i of `selector` names.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> (8 * (selector >> 4 * i & 7u)) & 0xffu) << 8 * i;
  return result;
}
