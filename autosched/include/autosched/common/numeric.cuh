// Conversions between storage types and f32, and the elements of aligned vectors.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/convert.cuh>

namespace autosched {

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Element i of a vector of elements of type T, as f32.
template <class T, int Bytes>
__device__ __forceinline__ float get_element(const AlignedVector<Bytes>& p, int i) {
  if constexpr (sizeof(T) == 4) {
    return ptx::float_of(p.word[i]);
  } else {
    unsigned short bits;
    if constexpr (Bytes == 2) {
      bits = p.half;
    } else {
      bits = static_cast<unsigned short>(p.word[i / 2] >> (16 * (i % 2)));
    }
    if constexpr (is_same<T, f16>) {
      return ptx::cvt_f32_f16(bits);
    } else {
      static_assert(is_same<T, bf16>, "elements are float, f16 or bf16");
      return ptx::cvt_f32_bf16(bits);
    }
  }
}

// Puts an element into a vector of zeros, at i.
template <class T, int Bytes>
__device__ __forceinline__ void put_element(AlignedVector<Bytes>& p, int i, const AlignedVector<int(sizeof(T))>& element) {
  if constexpr (sizeof(T) == 4) {
    p.word[i] = element.word[0];
  } else {
    p.word[i / 2] |= unsigned(element.half) << (16 * (i % 2));
  }
}

// The bits of x rounded to T, in the low bits of a word.
template <class T>
__device__ __forceinline__ unsigned round_to(float x) {
  if constexpr (sizeof(T) == 4) {
    return ptx::bits_of(x);
  } else if constexpr (is_same<T, f16>) {
    return ptx::cvt_rn_f16_f32(x);
  } else {
    static_assert(is_same<T, bf16>, "elements are float, f16 or bf16");
    return ptx::cvt_rn_bf16_f32(x);
  }
}

// A vector of Count elements of type T, rounded from f32.
template <class T, int Count>
__device__ __forceinline__ AlignedVector<Count * int(sizeof(T))> pack(const float* x) {
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

// Elements [first, first + Count) of a vector of T, as a vector of their own.
template <class T, int Count, int Bytes>
__device__ __forceinline__ AlignedVector<Count * int(sizeof(T))> slice(const AlignedVector<Bytes>& p, int first) {
  if constexpr (Count * int(sizeof(T)) == Bytes) {
    return p;
  } else {
    AlignedVector<Count * int(sizeof(T))> out;
    if constexpr (Count * sizeof(T) == 2) {
      out.half = static_cast<unsigned short>(p.word[first / 2] >> (16 * (first % 2)));
    } else {
#pragma unroll
      for (int i = 0; i < int(Count * sizeof(T)) / 4; ++i) out.word[i] = p.word[first * int(sizeof(T)) / 4 + i];
    }
    return out;
  }
}

}  // namespace autosched
