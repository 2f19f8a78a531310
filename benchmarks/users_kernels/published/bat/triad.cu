__global__ void triad(const real *A, const real *B, real *C, real s, int n) {
  int i = blockIdx.x * BLOCK_SIZE * WORK_PER_THREAD + threadIdx.x;
#pragma unroll (LOOP_UNROLL_TRIAD)
  for (int k = 0; k < WORK_PER_THREAD; ++k, i += BLOCK_SIZE)
    if (i < n) C[i] = A[i] + s * B[i];
}
