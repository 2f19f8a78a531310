__global__ void scale(const float4 *in, float4 *out, float factor, int n) {
  for (int i = blockIdx.x * BLOCK_SIZE + threadIdx.x; i < n; i += gridDim.x * BLOCK_SIZE) {
    float4 v = in[i];
    out[i] = make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w);
  }
}
