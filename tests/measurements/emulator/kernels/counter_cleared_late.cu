// One thread clears a counter. With BROKEN, other threads may already have counted.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ unsigned positive;
  if (threadIdx.x == 0) positive = 0;
  if (!BROKEN) __syncthreads();
  if (a[threadIdx.x] >= 0) atomicAdd(&positive, 1u);  // found here
  __syncthreads();
  o[threadIdx.x] = float(positive);
}
