// Values in registers: element-wise functions, and loads and stores of vectors of adjacent elements.
//
// A thread holds its elements of a value in an array, in the order of the value's distribution. f16 and bf16 are stored
// as floats, or as pairs in words if they are operands of a product.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/arithmetic.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/thread.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched::tile {

// Additions that the compiler must not fuse with a product. The tile program decides about fusion, so that all its
// schedules round alike.
using autosched::multiply_add;
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float subtract(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ int add(int a, int b) { return a + b; }
__device__ __forceinline__ int subtract(int a, int b) { return a - b; }

// As in numpy, minimum and maximum propagate NaN.
__device__ __forceinline__ float maximum(float a, float b) { return ptx::max_nan(a, b); }
__device__ __forceinline__ float minimum(float a, float b) { return ptx::min_nan(a, b); }
__device__ __forceinline__ int maximum(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ int minimum(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int maximum_unsigned(int a, int b) { return unsigned(a) > unsigned(b) ? a : b; }
__device__ __forceinline__ int minimum_unsigned(int a, int b) { return unsigned(a) < unsigned(b) ? a : b; }
__device__ __forceinline__ float absolute(float x) { return fabsf(x); }
__device__ __forceinline__ int absolute(int x) { return abs(x); }
__device__ __forceinline__ float log2(float x) { return log2f(x); }
__device__ __forceinline__ float rsqrt(float x) { return rsqrtf(x); }
__device__ __forceinline__ float log(float x) { return logf(x); }
__device__ __forceinline__ float erf(float x) { return erff(x); }
__device__ __forceinline__ float power(float x, float y) { return powf(x, y); }

// 1 / (1 + exp(-x)), to about 8 units of 2^-24.
__device__ __forceinline__ float sigmoid(float x) {
  return ptx::rcp_approx_ftz(1.0f + ptx::ex2_approx_ftz(-1.44269504f * x));
}

// sinf and cosf contain long code for large angles, which would be inlined for each register and take seconds to
// compile. Here, this code is in functions that are not inlined, and are only called for angles beyond `most_reduced`.
// Smaller angles are reduced by a multiple of pi / 2, which is subtracted in three parts.
constexpr float most_reduced = 105615.0f;
static __device__ __noinline__ float far_sine(float x) { return sinf(x); }
static __device__ __noinline__ float far_cosine(float x) { return cosf(x); }
// Returns the sine of x + quarter * pi / 2.
__device__ __forceinline__ float sine_in_quarter(float x, int quarter) {
  const float quarters = rintf(x * 0.636619747f);
  float t = fmaf(quarters, -1.57079601e+00f, x);
  t = fmaf(quarters, -3.13916473e-07f, t);
  t = fmaf(quarters, -5.39030253e-15f, t);
  const int at = int(quarters) + quarter;
  const float square = t * t;
  float sine = fmaf(-1.95152959e-4f, square, 8.33216087e-3f);
  sine = fmaf(sine, square, -1.66666546e-1f);
  sine = fmaf(sine * square, t, t);
  float cosine = fmaf(2.44331571e-5f, square, -1.38873162e-3f);
  cosine = fmaf(cosine, square, 4.16666456e-2f);
  cosine = fmaf(cosine, square, -0.5f);
  cosine = fmaf(cosine, square, 1.0f);
  const float result = at & 1 ? cosine : sine;
  return at & 2 ? -result : result;
}
__device__ __forceinline__ float sine(float x) {
  return fabsf(x) <= most_reduced ? sine_in_quarter(x, 0) : far_sine(x);
}
__device__ __forceinline__ float cosine(float x) {
  return fabsf(x) <= most_reduced ? sine_in_quarter(x, 1) : far_cosine(x);
}

// Returns x rounded to T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return Element<T>::of(round_to<T>(x));
}

// Keeps the larger of two elements (the smaller one if `sign` is -1) with its index. NaN precedes all numbers. Of equal
// elements, the element with the smaller index is kept.
template <int sign, class X>
__device__ __forceinline__ void pick(X& x, int& index, X other, int other_index) {
  const bool before = sign > 0 ? other > x : other < x;
  const bool nan = x != x, other_nan = other != other;
  const bool same = x == other || (nan && other_nan);
  if (before || (other_nan && !nan) || (same && other_index < index)) {
    x = other;
    index = other_index;
  }
}

// Pack two 16-bit numbers in a word, and extract one of them.
template <class T>
__device__ __forceinline__ unsigned packed(float low, float high) {
  return round_to<T>(low) | round_to<T>(high) << 16;
}
template <class T>
__device__ __forceinline__ auto unpacked(const unsigned* words, int i) {
  constexpr int bits = 8 * int(sizeof(T)), in_word = 32 / bits;
  return Element<T>::of((words[i / in_word] >> (bits * (i % in_word))) & ((1u << bits) - 1u));
}
// Packs four 8-bit numbers of type T.
template <class T, class X>
__device__ __forceinline__ unsigned narrow(X x) {
  if constexpr (is_same<T, signed char> || is_same<T, unsigned char>) {
    return unsigned(x) & 0xffu;
  } else {
    // Both types are converted through f16: e5m2 is the upper half of an f16, and e4m3 is shifted by one bit and has
    // another exponent bias.
    const unsigned half = ptx::cvt_rn_f16_f32(is_same<T, e4m3> ? x * 0.00390625f : x);
    const unsigned sign = half >> 8 & 0x80u, magnitude = half & 0x7fffu;
    if constexpr (is_same<T, e4m3>) {
      return sign | (x == x ? magnitude >> 7 : 0x7fu);
    } else {
      return sign | magnitude >> 8;
    }
  }
}
template <class T, class X>
__device__ __forceinline__ unsigned packed(X a, X b, X c, X d) {
  return narrow<T>(a) | narrow<T>(b) << 8 | narrow<T>(c) << 16 | narrow<T>(d) << 24;
}

// Returns x rounded to T, to nearest, ties to even, and saturated. T may also be an integer type.
template <class T>
__device__ __forceinline__ float narrowed(float x) {
  constexpr bool wide = is_same<T, e4m3>;  // e4m3 has one more mantissa bit than e5m2, and one exponent bit less
  constexpr float largest = wide ? 448.0f : 57344.0f, least = wide ? 0.015625f : 6.10351562e-05f;
  constexpr float per_step = wide ? 512.0f : 65536.0f;  // steps per unit for numbers below `least`
  constexpr int cut = wide ? 20 : 21;
  const float size = fminf(fabsf(x), largest);
  const unsigned bits = ptx::bits_of(size);
  const unsigned even = bits + (1u << (cut - 1)) - 1u + (bits >> cut & 1u);
  const float above = ptx::float_of(even >> cut << cut), below = rintf(size * per_step) / per_step;
  return x == x ? copysignf(size < least ? below : above, x) : x;
}
template <class T>
__device__ __forceinline__ int saturated(int x) {
  constexpr int least = is_same<T, signed char> ? -128 : 0, most = is_same<T, signed char> ? 127 : 255;
  return min(max(x, least), most);
}
// Rounds towards zero and saturates; NaN becomes 0.
__device__ __forceinline__ int truncated(float x) { return __float2int_rz(x); }
// Loads a number from which positions are computed, and clamps it to its range. If `from` is outside of the array
// (`inside` is false), the number is `low`.
__device__ __forceinline__ int load_scalar(const int* from, bool inside, int low, int high) {
  const int number = inside ? int(ptx::ld_global_nc<4>(from).word[0]) : low;
  return minimum(maximum(number, low), high);
}
// Returns the nonzero one of two numbers, of which at least one is 0.
__device__ __forceinline__ int only(int a, int b) { return a | b; }
__device__ __forceinline__ float only(float a, float b) {
  return ptx::float_of(ptx::bits_of(a) | ptx::bits_of(b));
}
// Returns word `word` of Philox4x32-10 (Salmon et al., 2011) for the counter (counter, 0, 0, 0) and the key (seed, 0).
__device__ __forceinline__ int philox(int counter, int seed, int word) {
  unsigned w[4] = {unsigned(counter), 0, 0, 0}, key[2] = {unsigned(seed), 0};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned high = __umulhi(0xCD9E8D57u, w[2]) ^ w[1] ^ key[0];
    const unsigned other = __umulhi(0xD2511F53u, w[0]) ^ w[3] ^ key[1];
    const unsigned low = 0xCD9E8D57u * w[2], other_low = 0xD2511F53u * w[0];
    w[0] = high, w[1] = low, w[2] = other, w[3] = other_low;
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return int(word < 2 ? (word ? w[1] : w[0]) : word == 2 ? w[2] : w[3]);
}
// Loads a row number from a table of `count` numbers, or from an address. Returns `padding` outside of the table.
__device__ __forceinline__ int load_row(const int* table, int index, int count, int padding) {
  return unsigned(index) < unsigned(count) ? int(ptx::ld_global_nc<4>(table + index).word[0]) : padding;
}
__device__ __forceinline__ int load_row(const int* from, bool inside, int padding) {
  return inside ? int(ptx::ld_global_nc<4>(from).word[0]) : padding;
}
// Returns the quotient rounded down; the divisor is at least 1.
__device__ __forceinline__ int floor_divide(int a, int b) { return a / b - (a % b < 0); }
// Returns (x - zero) * times for the 4-bit number x of a column, which is stored in `word`.
__device__ __forceinline__ float nibble(int word, int column, int first, int count, int zero, int times) {
  const int step = column / 16 % count + first;
  return float(((word >> (4 * step + column % 2 * 16) & 15) - zero) * times);
}
// Returns the numbers of an even column and of the next column as two T in a word. The numbers' bits begin at bits 4 *
// step and 4 * step + 16 of `word`. Each number is inserted in the lowest four mantissa bits of 1024 (f16) or 128
// (bf16). The result is exactly 1024 or 128 plus the number, so differences are exact.
//
// For f16 with `times` = 16, two pairs are computed together in 4 instructions: the two pairs in the lower bytes of the
// halves, or the two in their upper bytes.
// - A half of `bytes` combines the exponent of 1024 with a byte of the word, which has two numbers a and b: it is 1024
//   + a + 16 b.
// - A half of `lower` is 1024 + a + 16 zero.
// - So 16 (a - zero) is 16 lower - 16 (1024 + 17 zero), and 16 (b - zero) is bytes - lower.
template <class T, int times>
__device__ __forceinline__ unsigned nibbles(int word, int step, int zero) {
  constexpr bool half = is_same<T, f16>;
  constexpr unsigned base = half ? 0x64006400u : 0x43004300u;
  const unsigned zeros = unsigned(zero & 15) * 0x00010001u;
  if constexpr (half && times == 16) {
    const unsigned exponents = ptx::in_register<base>();
    const unsigned bytes =
        step < 2 ? ptx::prmt<0x5250>(unsigned(word), exponents) : ptx::prmt<0x5351>(unsigned(word), exponents);
    const unsigned lower = (bytes & 0x000f000fu) | (exponents + (zeros << 4));
    if (step % 2) return static_cast<unsigned>(ptx::fma_rn(f16x2(lower), f16x2(0xbc00bc00u), f16x2(bytes)));
    // `less` is -16 (1024 + 17 zero) = -16384 - 16 (17 zero). Near this value, f16 numbers are multiples of 16, so the
    // bits of `less` are those of -16384 plus 17 zero.
    const unsigned less = 0xf400f400u + zeros * 17u;
    return static_cast<unsigned>(ptx::fma_rn(f16x2(lower), f16x2(0x4c004c00u), f16x2(less)));
  } else {
    const unsigned number = (unsigned(word) >> 4 * step & 0x000f000fu) | ptx::in_register<base>();
    if constexpr (half) return static_cast<unsigned>(ptx::add_rn(f16x2(number), f16x2(base | 0x80008000u | zeros)));
    constexpr unsigned factor = times == 16 ? 0x41804180u : 0x3f803f80u, less = times == 16 ? 0xc500c500u : 0xc300c300u;
    return ptx::fma_rn_bf16x2(number, factor, less | zeros);
  }
}
// Returns the product of a column's e2m1 number, a scale and 2^-14. Numbers are stored as for `nibble`.
__device__ __forceinline__ float fp4(int word, int column, int first, int count, float scale) {
  const int code = word >> (4 * (column / 16 % count + first) + column % 2 * 16) & 15, exponent = code >> 1 & 3;
  const float size = exponent ? float(2 + (code & 1) << exponent) * 0.25f : float(code & 1) * 0.5f;
  return (code & 8 ? -size : size) * scale * 6.10351562e-05f;
}
// Loads V bytes from shared memory to elements r to r + V - 1 of an array with four elements per word.
template <int V>
__device__ __forceinline__ void get_bytes(unsigned* words, int r, unsigned address) {
  const auto vector = ptx::ld_shared<V>(address);
  if constexpr (V < 4) {
    unsigned bytes;
    if constexpr (V == 2) {
      bytes = vector.half;
    } else {
      bytes = vector.byte;
    }
    words[r / 4] = r % 4 ? words[r / 4] | bytes << r % 4 * 8 : bytes;
  } else {
#pragma unroll
    for (int i = 0; i < V / 4; ++i) words[r / 4 + i] = vector.word[i];
  }
}
// Converts two numbers of type From, which are the two lower or the two upper bytes of a word, to two 16-bit T in a
// word.
template <class T, class From>
__device__ __forceinline__ unsigned widened(unsigned word, bool upper) {
  // The number is inserted in the mantissa of 1024, which gives the number plus 1152.
  if constexpr (is_same<From, signed char> && is_same<T, f16>) {
    const unsigned positive = word ^ 0x80808080u, base = ptx::in_register<0x64006400u>();
    const unsigned bytes = upper ? ptx::prmt<0x5352>(positive, base) : ptx::prmt<0x5150>(positive, base);
    return static_cast<unsigned>(ptx::add_rn(f16x2(bytes), f16x2(0xe480e480u)));
  } else {
    const unsigned pair = upper ? word >> 16 : word;
#if __CUDA_ARCH__ >= 890
    if constexpr (is_same<From, e4m3>) {
      const f16x2 both = ptx::cvt_rn_f16x2_e4m3x2(static_cast<unsigned short>(pair));
      if constexpr (is_same<T, f16>) return static_cast<unsigned>(both);
      return packed<T>(ptx::cvt_f32_f16_low(both), ptx::cvt_f32_f16_high(both));
    }
#endif
    return packed<T>(float(Element<From>::of(pair & 0xffu)), float(Element<From>::of(pair >> 8 & 0xffu)));
  }
}
// Returns the factors for `fp4_pair`, as two T in a word. They are converted from two e4m3 numbers: the two lower or
// the two upper bytes of `word`. If T is bf16, the results are multiplied by 2^112.
template <class T>
__device__ __forceinline__ unsigned fp4_scales(unsigned word, bool upper) {
  const unsigned scales = widened<T, e4m3>(word, upper);
  return is_same<T, f16> ? scales : ptx::fma_rn_bf16x2(scales, 0x77807780u, 0x80008000u);
}
template <class T>
__device__ __forceinline__ unsigned fp4_scales(float scale) {
  const float factor = is_same<T, f16> ? scale : scale * 5.19229686e+33f;  // 2^112
  return packed<T>(factor, factor);
}
// Returns the numbers of `fp4` for an even column and the next column, as two T in a word. They are multiplied by the
// lower or the upper of two factors. Sign, exponent and mantissa bits of e2m1 are inserted at the lowest exponent bits
// of T, which gives the number times 2^-14 (f16) or 2^-126 (bf16).
template <class T>
__device__ __forceinline__ unsigned fp4_pair(int word, int step, unsigned scales, bool upper) {
  const unsigned both = upper ? ptx::high_twice(scales) : ptx::low_twice(scales);
  if constexpr (is_same<T, f16>) {
    const unsigned last = unsigned(word) << (12 - 4 * step), bits = (last >> 3 & 0x0e000e00u) | (last & 0x80008000u);
    return static_cast<unsigned>(ptx::fma_rn(f16x2(bits), f16x2(both), f16x2(0x80008000u)));
  } else {
    // A single multiplication shifts the code twice: by 6 bits for exponent and mantissa, and by 12 bits for the sign.
    // No bits overlap.
    const unsigned codes = step < 2 ? unsigned(word) : unsigned(word) >> 8;
    const unsigned shifted = step % 2 ? (codes & 0x00f000f0u) * 0x104u : (codes & 0x000f000fu) * 0x1040u;
    return ptx::fma_rn_bf16x2(shifted & 0x81c081c0u, both, 0x80008000u);
  }
}
// Returns the bits of V 8-bit numbers of type T.
template <class T, int V, class X>
__device__ __forceinline__ AlignedVector<V> pack_bytes(const X* x) {
  AlignedVector<V> p;
  if constexpr (V == 1) {
    p.byte = static_cast<unsigned char>(narrow<T>(x[0]));
  } else if constexpr (V == 2) {
    p.half = static_cast<unsigned short>(narrow<T>(x[0]) | narrow<T>(x[1]) << 8);
  } else {
#pragma unroll
    for (int i = 0; i < V / 4; ++i) p.word[i] = packed<T>(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
  }
  return p;
}

// Loads V elements from `from` on, or `padding` in place of elements outside of the array. Either all or none are
// inside.
template <class T, int V, class X>
__device__ __forceinline__ void load(X* x, const T* from, bool inside, X padding) {
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = padding;
  if (inside) {
    const auto vector = ptx::ld_global_nc<V * int(sizeof(T))>(from);
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = X(get_element<T>(vector, i));
  }
}
// Loads V elements like load(), from an array that the kernel also writes.
template <class T, int V, class X>
__device__ __forceinline__ void load_written(X* x, const T* from, bool inside, X padding) {
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = padding;
  if (inside) {
    const auto vector = ptx::ld_global<V * int(sizeof(T))>(from);
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = X(get_element<T>(vector, i));
  }
}
// Loads two 16-bit elements without conversion. They are adjacent (V = 2) or a stride apart.
template <class T, int V>
__device__ __forceinline__ unsigned load_pair(const T* from, int stride, bool inside, bool second_inside) {
  unsigned word = 0;
  if constexpr (V == 2) {
    if (inside) word = ptx::ld_global_nc<4>(from).word[0];
  } else {
    if (inside) word = ptx::ld_global_nc<2>(from).half;
    if (second_inside) word |= unsigned(ptx::ld_global_nc<2>(from + stride).half) << 16;
  }
  return word;
}

template <class T, int V, class X>
__device__ __forceinline__ void store(T* to, const X* x, bool inside) {
  if (!inside) return;
  if constexpr (sizeof(T) == 1) {
    ptx::st_global(to, pack_bytes<T, V>(x));
  } else {
    ptx::st_global(to, pack<T, V>(x));
  }
}

// The bits of a register of any type, for shuffles.
__device__ __forceinline__ unsigned bits(float x) { return ptx::bits_of(x); }
__device__ __forceinline__ unsigned bits(int x) { return unsigned(x); }
__device__ __forceinline__ unsigned bits(unsigned x) { return x; }
__device__ __forceinline__ unsigned bits(bool x) { return x; }
template <class X>
__device__ __forceinline__ X of_bits(unsigned word) {
  if constexpr (is_same<X, float>) {
    return ptx::float_of(word);
  } else {
    return X(word);
  }
}
// Returns the value of the lane whose number is this lane's number xor `mask`.
template <class X>
__device__ __forceinline__ X exchanged(X x, int mask) {
  return of_bits<X>(ptx::shfl_bfly(bits(x), mask));
}
// Returns the value of another lane of the warp.
template <class X>
__device__ __forceinline__ X of_lane(X x, int lane) {
  return of_bits<X>(ptx::shfl_idx(bits(x), lane));
}
// Store V adjacent registers to shared memory, and load them.
template <int V, class X>
__device__ __forceinline__ void put(unsigned address, const X* x) {
  AlignedVector<4 * V> words;
#pragma unroll
  for (int i = 0; i < V; ++i) words.word[i] = bits(x[i]);
  ptx::st_shared(address, words);
}
template <int V, class X>
__device__ __forceinline__ void get(X* x, unsigned address) {
  const auto words = ptx::ld_shared<4 * V>(address);
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = of_bits<X>(words.word[i]);
}

// Store V adjacent elements of type T to shared memory, and load them.
template <class T, int V, class X>
__device__ __forceinline__ void put_elements(unsigned address, const X* x) {
  ptx::st_shared(address, pack<T, V>(x));
}
template <class T, int V, class X>
__device__ __forceinline__ void get_elements(X* x, unsigned address) {
  const auto vector = ptx::ld_shared<V * int(sizeof(T))>(address);
#pragma unroll
  for (int i = 0; i < V; ++i) x[i] = X(get_element<T>(vector, i));
}

}  // namespace autosched::tile
