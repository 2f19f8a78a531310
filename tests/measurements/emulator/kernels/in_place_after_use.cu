// A row is permuted in place. With BROKEN, values are used after a barrier, when they may have been overwritten.
extern "C" __global__ void kernel(const unsigned* a, float* o, unsigned* c) {
  __shared__ unsigned kept[64];
  const unsigned t = threadIdx.x;
  unsigned x;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(x) : "l"(c + 63 - t));
  if (!BROKEN) kept[t] = x;
  __syncthreads();
  if (BROKEN) kept[t] = x;
  c[t] = kept[t] + 1;  // found here
  o[t] = 0;
}
