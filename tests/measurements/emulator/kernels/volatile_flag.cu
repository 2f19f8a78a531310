// A warp waits for a flag in volatile shared memory, with a fence on each side. With BROKEN a fence is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ volatile unsigned ready;
  __shared__ float value;
  const unsigned t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 0) {
    value = a[5];
    if (!BROKEN) __threadfence_block();
    ready = 1;
  }
  if (t >= 32) {
    while (ready == 0) {
    }
    __threadfence_block();
    o[t] = value;  // found here
  } else {
    o[t] = a[t];
  }
}
