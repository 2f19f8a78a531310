// Included in front of every emulated kernel: CUDA's language extensions and built-in functions for a host compiler.
// No standard header but <source_location>, to keep a kernel's compile under a second.
#pragma once
#include <autosched_emulator/runtime.hpp>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Static shared memory of a kernel: reached through __cvta_generic_to_shared and the ptx functions. Blocks run one
// after another, so one copy serves all of them.
#define __shared__ __attribute__((section("autosched_shared"))) static

using size_t = decltype(sizeof(0));
using dim3 = autosched::emulator::Index3;

#define threadIdx (::autosched::emulator::current->thread)
#define blockIdx (::autosched::emulator::current->block)
#define blockDim (::autosched::emulator::block_size)
#define gridDim (::autosched::emulator::grid_size)
#define warpSize 32

inline size_t __cvta_generic_to_shared(const void* p,
                                       autosched::emulator::Site site = autosched::emulator::Site::current()) {
  return autosched::emulator::shared_address_of(p, site);
}

// Bits.
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}

// Arithmetic. The fast variants (__expf and so on) are the accurate functions here.
extern "C" {
float fmaf(float, float, float) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float powf(float, float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float sqrtf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float rintf(float) noexcept;
float roundf(float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
int abs(int) noexcept;
}
inline float rsqrtf(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

// The launch: calls the entry function with the arguments of the job. Appended behind every kernel source.
namespace autosched::emulator {

template <class... Parameters>
constexpr int count_parameters(void (*)(Parameters...)) {
  return sizeof...(Parameters);
}
// A parameter: a pointer to a buffer, or a value, whose bytes the argument points to.
template <class T>
struct Parameter {
  static constexpr bool is_pointer = false;
  static T of(void* argument) {
    T value;
    __builtin_memcpy(&value, argument, sizeof value);
    return value;
  }
};
template <class T>
struct Parameter<T*> {
  static constexpr bool is_pointer = true;
  static T* of(void* argument) { return static_cast<T*>(argument); }
};
// `bytes` has a number for each argument: the bytes of a value, 0 for a pointer.
template <class... Parameters>
constexpr bool parameters_fit(void (*)(Parameters...), const int* bytes) {
  return ((Parameter<Parameters>::is_pointer ? *bytes++ == 0 : *bytes++ == static_cast<int>(sizeof(Parameters))) && ...);
}
template <class... Parameters>
void call_with(void (*kernel)(Parameters...), void** argument) {
  // Braces evaluate from left to right, so that argument++ pairs each parameter with its pointer.
  struct Call {
    Call(void (*f)(Parameters...), Parameters... p) { f(p...); }
  };
  Call{kernel, Parameter<Parameters>::of(*argument++)...};
}

}  // namespace autosched::emulator

// ... are the bytes of each argument, after a first number that is ignored: see parameters_fit.
#define AUTOSCHED_EMULATOR_ENTRY(KERNEL, ...)                                                                        \
  namespace autosched::emulator {                                                                                    \
  constexpr int argument_bytes[] = {__VA_ARGS__};                                                                    \
  }                                                                                                                  \
  static_assert(autosched::emulator::count_parameters(&KERNEL) + 1 == sizeof autosched::emulator::argument_bytes / 4, \
                "the kernel must have one parameter for each of its arguments");                                     \
  static_assert(autosched::emulator::parameters_fit(&KERNEL, autosched::emulator::argument_bytes + 1),               \
                "every parameter of the kernel must be a pointer, or a value of as many bytes as its argument");     \
  extern "C" void autosched_emulator_entry(void** arguments) { autosched::emulator::call_with(&KERNEL, arguments); } \
  extern "C" {                                                                                                       \
  __attribute__((weak)) extern char __start_autosched_shared[], __stop_autosched_shared[];                           \
  void autosched_emulator_shared(char** begin, char** end) {                                                         \
    *begin = __start_autosched_shared;                                                                               \
    *end = __stop_autosched_shared;                                                                                  \
  }                                                                                                                  \
  }
