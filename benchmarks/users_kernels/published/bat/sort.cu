// Histogram of one step of a radix sort: for each block, the number of keys with each value of four bits.
__global__ void radix_counts(const unsigned *keys, unsigned *counts, int n, int shift) {
  __shared__ unsigned local[16];
  for (int i = threadIdx.x; i < 16; i += BLOCK_SIZE) local[i] = 0;
  __syncthreads();
  for (int k = 0; k < part / BLOCK_SIZE; ++k) {
    int i = blockIdx.x * part + k * BLOCK_SIZE + threadIdx.x;
    if (i >= n) continue;
    unsigned digit = keys[i] >> shift & 15u;
#if AGGREGATE
    unsigned same = __match_any_sync(__activemask(), digit);
    if (__ffs(same) - 1 == threadIdx.x % 32) atomicAdd(local + digit, __popc(same));
#else
    atomicAdd(local + digit, 1u);
#endif
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 16; i += BLOCK_SIZE) counts[i * gridDim.x + blockIdx.x] = local[i];
}
