// Bhattacharya distance of two sets of points. Each block computes a partial sum with CUB.
#include <cub/cub.cuh>

__global__ void expdist(double *cross_term, const double *A, const double *B, const double *scale_A, const double *scale_B, int m, int n) {
  typedef cub::BlockReduce<double, block_size_x, cub::BLOCK_REDUCE_WARP_REDUCTIONS, block_size_y> BlockReduce;
  __shared__ typename BlockReduce::TempStorage storage;
  double sum = 0.0;
  for (int ti = 0; ti < tile_size_x; ++ti)
    for (int tj = 0; tj < tile_size_y; ++tj) {
      int i = (blockIdx.x * tile_size_x + ti) * block_size_x + threadIdx.x;
      int j = (blockIdx.y * tile_size_y + tj) * block_size_y + threadIdx.y;
      if (i >= m || j >= n) continue;
      double distance = 0.0;
      for (int d = 0; d < 2; ++d) distance += (A[d * m + i] - B[d * n + j]) * (A[d * m + i] - B[d * n + j]);
      sum += exp(-distance / (scale_A[i] + scale_B[j]));
    }
  sum = BlockReduce(storage).Sum(sum);
  if (threadIdx.x == 0 && threadIdx.y == 0) cross_term[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
