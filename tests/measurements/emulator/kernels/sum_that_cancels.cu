// Prefix sum of the values of 41 threads; the values of other threads are undefined. Each thread's value is added to
// its own sum and subtracted again, so it cancels. With BROKEN, two more sums are stored; one of them is undefined.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned counts[64], before[64];
  const unsigned t = threadIdx.x;
  unsigned own;
  asm volatile("{\n.reg .b32 u;\nmov.b32 %0, u;\n}" : "=r"(own));  // found here
  if (t < 41) own = static_cast<unsigned>(a[t]) % 3;
  counts[t] = own;
  __syncthreads();
  if (t < 32) {
    const unsigned pair = counts[2 * t] + counts[2 * t + 1];
    unsigned sum = pair;
    for (unsigned k = 1; k < 32; k *= 2) {
      const unsigned other = __shfl_up_sync(0xffffffff, sum, k);
      if (t >= k) sum += other;
    }
    before[2 * t] = sum - pair;
    before[2 * t + 1] = sum - counts[2 * t + 1];
  }
  __syncthreads();
  o[t] = t < (BROKEN ? 43 : 41) ? before[t] : 0.0f;
}
