// C = alpha * A * B + beta * C with tiles of MWG x NWG x KWG and vector loads. A is k x m, and B is k x n.
#if VW == 4
typedef float4 vec;
#elif VW == 2
typedef float2 vec;
#else
typedef float vec;
#endif

__global__ void gemm(int m, int n, int k, float alpha, float beta, const vec *A, const vec *B, float *C) {
  __shared__ vec sA[KWG][MWG / VW];
  __shared__ vec sB[KWG][NWG / VW];
  int id = threadIdx.y * MDIMC + threadIdx.x, threads = MDIMC * NDIMC;
  float sum[NWG / NDIMC][MWG / MDIMC] = {};
  for (int k0 = 0; k0 < k; k0 += KWG) {
    for (int i = id; i < KWG * MWG / VW; i += threads)
      sA[i / (MWG / VW)][i % (MWG / VW)] = A[((k0 + i / (MWG / VW)) * m + blockIdx.x * MWG) / VW + i % (MWG / VW)];
    for (int i = id; i < KWG * NWG / VW; i += threads)
      sB[i / (NWG / VW)][i % (NWG / VW)] = B[((k0 + i / (NWG / VW)) * n + blockIdx.y * NWG) / VW + i % (NWG / VW)];
    __syncthreads();
#pragma unroll (KWI)
    for (int kk = 0; kk < KWG; ++kk)
#pragma unroll
      for (int j = 0; j < NWG / NDIMC; ++j)
#pragma unroll
        for (int i = 0; i < MWG / MDIMC; ++i)
          sum[j][i] += ((float *)sA[kk])[threadIdx.x + i * MDIMC] * ((float *)sB[kk])[threadIdx.y + j * NDIMC];
    __syncthreads();
  }
  for (int j = 0; j < NWG / NDIMC; ++j)
    for (int i = 0; i < MWG / MDIMC; ++i) {
      int at = (blockIdx.y * NWG + threadIdx.y + j * NDIMC) * m + blockIdx.x * MWG + threadIdx.x + i * MDIMC;
      C[at] = alpha * sum[j][i] + beta * C[at];
    }
}
