// A row is compacted in place: what was read as constant is overwritten after it has been used.
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
