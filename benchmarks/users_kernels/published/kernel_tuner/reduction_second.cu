// The second launch of a sum, also used for expdist's cross term: one block adds the partial sums.
__global__ void reduce_cross_term(double *output, const double *cross_term, int blocks) {
  __shared__ double partial[block_size_x];
  double sum = 0.0;
  for (int i = threadIdx.x; i < blocks; i += block_size_x) sum += cross_term[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int s = block_size_x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) output[0] = partial[0];
}
