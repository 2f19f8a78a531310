template <typename T, int block, int items>
__global__ void vector_add(T *c, const T *a, const T *b, int n) {
#pragma unroll
  for (int k = 0; k < items; ++k) {
    int i = (blockIdx.x * items + k) * block + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
  }
}
