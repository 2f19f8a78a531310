// As in Triton's layouts, threads beyond the tile hold copies of elements and sums. Only BROKEN uses these copies.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x;
  unsigned x;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(c + t % 8));  // found here
  unsigned sum = x;
  for (int m = 4; m > 0; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  o[t] = a[t] + float(BROKEN ? sum : 0);
  if (t < 8) c[t] = x + sum;
}
