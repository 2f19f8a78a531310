// C = A * B. SA and SB select shared memory for the tiles of A and B.
__global__ void gemm(const float *A, const float *B, float *C, int m, int n, int k) {
  __shared__ float sA[SA ? TILE : 1][SA ? TILE + 1 : 1], sB[SB ? TILE : 1][SB ? TILE + 1 : 1];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; k0 += TILE) {
    if (SA) sA[threadIdx.y][threadIdx.x] = A[row * k + k0 + threadIdx.x];
    if (SB) sB[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * n + column];
    if (SA || SB) __syncthreads();
    for (int i = 0; i < TILE; ++i)
      sum += (SA ? sA[threadIdx.y][i] : A[row * k + k0 + i]) * (SB ? sB[i][threadIdx.x] : B[(k0 + i) * n + column]);
    if (SA || SB) __syncthreads();
  }
  C[row * n + column] = sum;
}
