// A warp passes values to another warp through shared memory. Before the next value, the first warp waits until the
// other has read the previous value. With BROKEN, a fence is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ volatile unsigned full;
  __shared__ float value;
  const unsigned t = threadIdx.x;
  if (t == 0) full = 0;
  __syncthreads();
  for (unsigned k = 0; k < 4; ++k) {
    if (t == 0) {
      while (full != 0) {
      }
      __threadfence_block();
      value = a[k];  // found here
      __threadfence_block();
      full = 1;
    }
    if (t == 32) {
      while (full == 0) {
      }
      __threadfence_block();
      o[k] = value;
      if (!BROKEN) __threadfence_block();
      full = 0;
    }
  }
  if (t >= 4) o[t] = a[t];
}
