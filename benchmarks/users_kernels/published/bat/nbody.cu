// Forces of all bodies on each body, with tiles of bodies in shared memory.
__global__ void nbody(const float4 *bodies, float4 *forces, int n, float softening) {
  __shared__ float4 tile[BLOCK_SIZE];
  int i = blockIdx.x * BLOCK_SIZE + threadIdx.x;
  float4 own = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
  float3 force = make_float3(0, 0, 0);
  for (int first = 0; first < n; first += BLOCK_SIZE) {
    int j = first + threadIdx.x;
    tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll (INNER_UNROLL)
    for (int t = 0; t < BLOCK_SIZE; ++t) {
      float dx = tile[t].x - own.x, dy = tile[t].y - own.y, dz = tile[t].z - own.z;
#if USE_RSQRT
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
#else
      float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + softening);
#endif
      float scale = tile[t].w * inverse * inverse * inverse;
      force.x += dx * scale, force.y += dy * scale, force.z += dz * scale;
    }
    __syncthreads();
  }
  if (i < n) forces[i] = make_float4(force.x, force.y, force.z, 0.0f);
}
