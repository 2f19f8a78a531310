// MD5 digests of 8-byte numbers. atomicMin finds the smallest number whose digest starts with a pattern.
__device__ __forceinline__ unsigned turn(unsigned x, int by) { return x << by | x >> (32 - by); }

__global__ void md5(const unsigned *table, unsigned *found, unsigned *digests, unsigned pattern, unsigned mask, int n) {
  const int turns[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
  for (int w = 0; w < WORK_PER_THREAD; ++w) {
    unsigned key = (blockIdx.x * WORK_PER_THREAD + w) * BLOCK_SIZE + threadIdx.x;
    if (key >= n) return;
    unsigned words[16] = {key, ~key, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0};
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
#if UNROLL
#pragma unroll
#else
#pragma unroll 1
#endif
    for (int i = 0; i < 64; ++i) {
      unsigned f, g;
      if (i < 16) f = (b & c) | (~b & d), g = i;
      else if (i < 32) f = (d & b) | (~d & c), g = (5 * i + 1) % 16;
      else if (i < 48) f = b ^ c ^ d, g = (3 * i + 5) % 16;
      else f = c ^ (b | ~d), g = 7 * i % 16;
      unsigned next = b + turn(a + f + table[i] + words[g], turns[i / 16 * 4 + i % 4]);
      a = d, d = c, c = b, b = next;
    }
    digests[key] = a + 0x67452301;
    if (((a + 0x67452301) & mask) == pattern) atomicMin(found, key);
  }
}
