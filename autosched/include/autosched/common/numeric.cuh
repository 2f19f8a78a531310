// Conversions between storage types and f32. Access to the elements of aligned vectors.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/arithmetic.cuh>
#include <autosched/ptx/convert.cuh>

namespace autosched {

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Properties of an array's element type T: conversions between the low bits of a word and a number, and the type Sum in
// which products are accumulated.
template <class T>
struct Element;
template <>
struct Element<float> {
  using Sum = float;
  __device__ static __forceinline__ float of(unsigned bits) { return ptx::float_of(bits); }
};
template <>
struct Element<f16> {
  using Sum = float;
  __device__ static __forceinline__ float of(unsigned bits) { return ptx::cvt_f32_f16(static_cast<unsigned short>(bits)); }
};
template <>
struct Element<bf16> {
  using Sum = float;
  __device__ static __forceinline__ float of(unsigned bits) { return ptx::cvt_f32_bf16(static_cast<unsigned short>(bits)); }
};
// e5m2 has the format of the upper half of an f16.
template <>
struct Element<e5m2> {
  using Sum = float;
  __device__ static __forceinline__ float of(unsigned bits) { return Element<f16>::of(bits << 8); }
};
// e4m3: the exponent has one bit less than in f16, and its bias is 7 instead of 15. There is no infinity; all ones is
// NaN.
template <>
struct Element<e4m3> {
  using Sum = float;
  __device__ static __forceinline__ float of(unsigned bits) {
#if __CUDA_ARCH__ >= 890
    return ptx::cvt_f32_f16_low(ptx::cvt_rn_f16x2_e4m3x2(static_cast<unsigned short>(bits & 0xff)));
#else
    const unsigned magnitude = bits & 0x7f;
    const float x = 256.0f * Element<f16>::of((bits & 0x80) << 8 | magnitude << 7);
    return magnitude == 0x7f ? ptx::float_of(0x7fffffff) : x;
#endif
  }
};
template <>
struct Element<signed char> {
  using Sum = int;
  __device__ static __forceinline__ int of(unsigned bits) { return static_cast<signed char>(bits & 0xff); }
};
template <>
struct Element<unsigned char> {
  using Sum = int;
  __device__ static __forceinline__ int of(unsigned bits) { return static_cast<int>(bits & 0xff); }
};
template <>
struct Element<int> {
  using Sum = int;
  __device__ static __forceinline__ int of(unsigned bits) { return static_cast<int>(bits); }
};

// Two f16 accumulators in a register, as tensor cores use them.
template <>
struct Element<f16x2> {
  using Sum = f16x2;
  __device__ static __forceinline__ f16x2 of(unsigned bits) { return f16x2(bits); }
};
__device__ __forceinline__ f16x2& operator+=(f16x2& a, f16x2 b) { return a = ptx::add_rn(a, b); }

// Accumulators are registers of type Sum: float, int, or two f16. `sum_at` returns one sum in the type of the epilogue.
template <class Sum>
inline constexpr int sums_of_register = is_same<Sum, f16x2> ? 2 : 1;
template <class Sum>
__device__ __forceinline__ auto sum_at(const Sum* registers, int i) {
  if constexpr (is_same<Sum, f16x2>) {
    return i % 2 == 0 ? ptx::cvt_f32_f16_low(registers[i / 2]) : ptx::cvt_f32_f16_high(registers[i / 2]);
  } else {
    return registers[i];
  }
}

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ int multiply_add(int a, int b, int c) { return a * b + c; }

// Returns element i of a vector of elements of type T, as a number.
template <class T, int Bytes>
__device__ __forceinline__ auto get_element(const AlignedVector<Bytes>& p, int i) {
  constexpr int bits = 8 * int(sizeof(T)), in_word = 32 / bits;
  if constexpr (Bytes == 1) {
    return Element<T>::of(p.byte);
  } else if constexpr (Bytes == 2) {
    return Element<T>::of(unsigned(p.half) >> (bits * i));
  } else {
    return Element<T>::of(p.word[i / in_word] >> (bits * (i % in_word)));
  }
}

// Inserts an element at i into a vector of zeros.
template <class T, int Bytes>
__device__ __forceinline__ void put_element(AlignedVector<Bytes>& p, int i, const AlignedVector<int(sizeof(T))>& element) {
  if constexpr (sizeof(T) == 4) {
    p.word[i] = element.word[0];
  } else {
    p.word[i / 2] |= unsigned(element.half) << (16 * (i % 2));
  }
}

// True if an operand's fragments are also used in arithmetic other than products. They must then be converted exactly,
// including the bits that tensor cores ignore.
template <class Operand>
inline constexpr bool keeps_bits = false;
// True if an operand in shared memory provides complete addresses of elements, not only offsets in a tile.
template <class Operand>
inline constexpr bool has_addresses = false;

// Returns the bits of x, rounded to T, in the low bits of a word.
template <class T, class X>
__device__ __forceinline__ unsigned round_to(X x) {
  if constexpr (is_same<X, int> || is_same<X, f16x2>) {
    static_assert(is_same<T, X>, "integers and pairs of f16 are stored without rounding");
    return static_cast<unsigned>(x);
  } else if constexpr (sizeof(T) == 4) {
    return ptx::bits_of(x);
  } else if constexpr (is_same<T, f16>) {
    return ptx::cvt_rn_f16_f32(x);
  } else {
    static_assert(is_same<T, bf16>, "elements must be float, f16 or bf16");
    return ptx::cvt_rn_bf16_f32(x);
  }
}

// Returns a vector of Count elements of type T, rounded from f32. Integers are stored unchanged.
template <class T, int Count, class X>
__device__ __forceinline__ AlignedVector<Count * int(sizeof(T))> pack(const X* x) {
  AlignedVector<Count * int(sizeof(T))> p;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < Count; ++i) p.word[i] = round_to<T>(x[i]);
  } else if constexpr (Count == 1) {
    p.half = static_cast<unsigned short>(round_to<T>(x[0]));
  } else {
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) p.word[i] = round_to<T>(x[2 * i]) | (round_to<T>(x[2 * i + 1]) << 16);
  }
  return p;
}

// Returns the elements [first, first + Count) of a vector of T as a vector.
template <class T, int Count, int Bytes>
__device__ __forceinline__ AlignedVector<Count * int(sizeof(T))> slice(const AlignedVector<Bytes>& p, int first) {
  if constexpr (Count * int(sizeof(T)) == Bytes) {
    return p;
  } else {
    AlignedVector<Count * int(sizeof(T))> out;
    const int at = first * int(sizeof(T));
    if constexpr (Bytes == 2) {
      out.byte = static_cast<unsigned char>(p.half >> (8 * at));
    } else if constexpr (Count * sizeof(T) == 1) {
      out.byte = static_cast<unsigned char>(p.word[at / 4] >> (8 * (at % 4)));
    } else if constexpr (Count * sizeof(T) == 2) {
      out.half = static_cast<unsigned short>(p.word[at / 4] >> (8 * (at % 4)));
    } else {
#pragma unroll
      for (int i = 0; i < int(Count * sizeof(T)) / 4; ++i) out.word[i] = p.word[at / 4 + i];
    }
    return out;
  }
}

}  // namespace autosched
