// Blocks compact an array in place. Each block signals, without a fence, that it has read its tile. The next block
// waits for this signal. With BROKEN, the signal comes before all threads have read.
__device__ unsigned load(unsigned* p) {
  unsigned x;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p));
  return x;
}
__device__ void store(unsigned* p, unsigned x) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(x)); }
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned kept[8];
  const unsigned t = threadIdx.x, b = blockIdx.x;
  unsigned* const tiles = c + 16;
  unsigned x = t < 8 ? tiles[b * 8 + t] : 0;
  if (t < 8) kept[t] = x;
  if (BROKEN && t == 0) store(c + b, 1);
  __syncthreads();
  if (!BROKEN && t == 0) store(c + b, 1);
  if (b > 0 && t == 0) {
    while (load(c + b - 1) == 0) {
    }
  }
  __syncthreads();
  if (t < 7) tiles[b * 7 + t] = kept[t] + 1;  // found here
  o[b * 64 + t] = a[b * 64 + t];
}
