// Unaligned vectors, assembled from the two aligned vectors that contain them.
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched {

// Returns the `Bytes` bytes that begin `shift` bytes after the start of `first`. In memory, `second` follows `first`.
// `shift` is less than Bytes, and a multiple of Unit, which is at least 2. Registers cannot be indexed. So each bit of
// `shift` moves all words by a power of two, and a funnel shift (SHF of two registers) then moves the bytes.
template <int Unit, int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> realign(const AlignedVector<Bytes>& first,
                                                        const AlignedVector<Bytes>& second, int shift) {
  constexpr int words = Bytes / 4;
  unsigned held[2 * words];
#pragma unroll
  for (int i = 0; i < words; ++i) {
    held[i] = first.word[i];
    held[words + i] = second.word[i];
  }
#pragma unroll
  for (int by = words / 2; by > 0; by /= 2) {
    if (4 * by < Unit) continue;
    const bool moves = (shift & 4 * by) != 0;
#pragma unroll
    for (int i = 0; i < words + by; ++i) held[i] = moves ? held[i + by] : held[i];
  }
  AlignedVector<Bytes> out;
#pragma unroll
  for (int i = 0; i < words; ++i) {
    out.word[i] = held[i];
    if constexpr (Unit < 4) {
      const unsigned long long both = static_cast<unsigned long long>(held[i + 1]) << 32 | held[i];
      out.word[i] = static_cast<unsigned>(both >> (8 * (shift & 3)));
    }
  }
  return out;
}

}  // namespace autosched
