// Copies a matrix to a padded matrix, whose line stride is a multiple of 16 bytes, as TMA requires. The padding is
// undefined. A thread writes 16 bytes at a time. In the source, these 16 bytes may begin at any byte. So the thread
// reads the five words that contain them, and shifts the bytes. A partial word at the end of the array is read byte by
// byte.
#pragma once

namespace autosched {

constexpr int pad_chunk = 16;  // number of bytes that a thread writes at a time

// Reads the word at byte offset `at` of an array of `total` bytes. `at` must be a multiple of 4.
template <long long total>
__device__ __forceinline__ unsigned word_within(const unsigned char* x, long long at) {
  if (total % 4 != 0 && at + 4 > total) {
    unsigned word = 0;
    for (int i = 0; i < int(total % 4); ++i) word |= unsigned(x[at + i]) << (8 * i);
    return word;
  }
  return __ldg(reinterpret_cast<const unsigned*>(x + at));
}

template <long long lines, long long line_bytes, long long padded_bytes>
__device__ __forceinline__ void pad_lines(const void* from, void* to) {
  static_assert(padded_bytes % pad_chunk == 0 && padded_bytes >= line_bytes, "a line needs whole chunks");
  const auto* x = static_cast<const unsigned char*>(from);
  auto* out = static_cast<unsigned char*>(to);
  constexpr long long chunks = padded_bytes / pad_chunk;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < lines * chunks; i += threads) {
    const long long line = i / chunks, first = i % chunks * pad_chunk;
    const long long begin = line * line_bytes + first, aligned = begin & ~3ll;
    const int skipped = int(begin - aligned);
    const long long bytes_left = line_bytes - first + skipped;  // number of bytes from `aligned` to the end of the line
    unsigned words[5], shifted[4];
#pragma unroll
    for (int j = 0; j < 5; ++j) words[j] = 4 * j < bytes_left ? word_within<lines * line_bytes>(x, aligned + 4 * j) : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) shifted[j] = __funnelshift_r(words[j], words[j + 1], 8 * skipped);
    *reinterpret_cast<uint4*>(out + line * padded_bytes + first) =
        make_uint4(shifted[0], shifted[1], shifted[2], shifted[3]);
  }
}

}  // namespace autosched
