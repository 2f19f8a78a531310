"""CUDA kernels that check results on the GPU: wrong numbers, changed inputs, writes after the end of an array.

These kernels need no headers, and no array library that compiles kernels at run time. After a failure of a candidate,
these known-good kernels also check that the GPU still works.
"""

from __future__ import annotations

from search_spaces.launches.generated_kernel import GeneratedKernel

GUARD = 0xA5  # value of the guard bytes after each array
# modes of check_bytes: the array may contain anything, must equal another array, or must be zero
MODE_ANY, MODE_EQUAL, MODE_ZERO = 0, 1, 2
THREADS = 256
HOLD = "hold_stream"  # name of the kernel that stream_hold launches

_SOURCE = r"""
typedef unsigned long long u64;

__device__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }

__device__ double value(unsigned short bits, double) {  // IEEE half, without the header
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double x;
  if (exponent == 0) x = ldexp((double)mantissa, -24);
  else if (exponent < 31) x = ldexp((double)(mantissa + 1024), exponent - 25);
  else x = mantissa ? infinity() - infinity() : infinity();
  return bits & 0x8000 ? -x : x;
}
__device__ double value(unsigned short bits, float) { return (double)__uint_as_float((unsigned)bits << 16); }
// 8-bit floats of 3 or 2 mantissa bits; the former has no infinity.
struct E4M3 {};
struct E5M2 {};
__device__ double value(unsigned char bits, E5M2) { return value((unsigned short)(bits << 8), 0.0); }
__device__ double value(unsigned char bits, E4M3) {
  if ((bits & 127) == 127) return infinity() - infinity();
  return 256.0 * value((unsigned short)((bits & 128) << 8 | (bits & 127) << 7), 0.0);
}
struct Number {};  // what C++ converts itself
template <class T>
__device__ double value(T x, Number) { return (double)x; }

// report: [0] elements that may be wrong, [1] index of the first, [2] bits of the largest error over its tolerance.
// The host decides on NaN, infinities, and elements without a finite tolerance (measurements/trials/comparison.py).
template <class Stored, class Kind>
__device__ void check(const Stored* found, const double* wanted, const double* allowed, u64 count, u64* report) {
  double worst = 0.0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
    const double error = fabs(value(found[i], Kind()) - wanted[i]);
    if (!(error <= allowed[i]) || (error > 0.0 && allowed[i] == infinity())) {  // a NaN is not <= anything
      atomicAdd(report, 1ull);
      atomicMin(report + 1, i);
    }
    double ratio = error == 0.0 ? 0.0 : error / allowed[i];
    if (ratio != ratio) ratio = infinity();
    worst = ratio > worst ? ratio : worst;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, worst, lanes);
    worst = other > worst ? other : worst;
  }
  // The order of doubles that are not negative is the order of their bits.
  if (threadIdx.x % 32 == 0 && worst > 0.0) atomicMax(report + 2, (u64)__double_as_longlong(worst));
}

#define CHECK(NAME, STORED, KIND)                                                                                  \
  extern "C" __global__ void check_##NAME(const STORED* found, const double* wanted, const double* allowed, u64 count, \
                                          u64* report) {                                                           \
    check<STORED, KIND>(found, wanted, allowed, count, report);                                                    \
  }
CHECK(f16, unsigned short, double)
CHECK(bf16, unsigned short, float)
CHECK(e4m3, unsigned char, E4M3)
CHECK(e5m2, unsigned char, E5M2)
CHECK(f32, float, Number)
CHECK(f64, double, Number)
CHECK(bool, bool, Number)
CHECK(i8, signed char, Number)
CHECK(i16, short, Number)
CHECK(i32, int, Number)
CHECK(i64, long long, Number)
CHECK(u8, unsigned char, Number)
CHECK(u16, unsigned short, Number)
CHECK(u32, unsigned, Number)
CHECK(u64, u64, Number)

// Ends once the host sets go[0], or after `limit` nanoseconds: then go[1] is 1. The host reads and writes go, too.
extern "C" __global__ void hold_stream(volatile unsigned* go, u64 limit) {
  u64 began, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
  for (now = began; !go[0] && now - began < limit;) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (!go[0]) go[1] = 1;
}

// Slots of `stride` bytes, one per blockIdx.y: an array of `bytes` bytes and a gap that holds the guard byte.
// mode 0: any contents, 1: equal to `expected`, 2: zero.
// report: [0] wrong bytes in arrays, [1] offset of the first in its slot, [2] and [3] the same for gaps.
extern "C" __global__ void check_bytes(const unsigned char* slots, const unsigned char* expected, u64 bytes, u64 stride,
                                       int mode, int guard, u64* report) {
  const unsigned char* slot = slots + blockIdx.y * stride;
  const u64 first = mode == 0 ? bytes : 0;
  for (u64 i = first + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < stride; i += (u64)gridDim.x * blockDim.x) {
    const bool in_gap = i >= bytes;
    const unsigned char wanted = in_gap ? (unsigned char)guard : mode == 1 ? expected[i] : 0;
    if (slot[i] != wanted) {
      atomicAdd(report + (in_gap ? 2 : 0), 1ull);
      atomicMin(report + (in_gap ? 3 : 1), i);
    }
  }
}
"""

KERNEL = GeneratedKernel(
    entry="check_bytes",
    source=_SOURCE,
    arguments=(),
    grid=(1, 1, 1),
    block=(THREADS, 1, 1),
)


def entry_for(dtype: str) -> str:
    """Return the name of the kernel that checks an output of type ``dtype``, a name in ``dtypes.SCALAR_DTYPES``."""
    return f"check_{dtype}"


def initial_report() -> list[int]:
    """Return the initial values of the report that a check updates: counts of 0, and no index of a first error."""
    return [0, 2**64 - 1, 0, 2**64 - 1]
