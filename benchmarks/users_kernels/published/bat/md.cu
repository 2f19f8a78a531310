// Lennard-Jones forces on each atom from the atoms in its neighbour list.
__global__ void compute_lj_force(float3 *force, const float4 *position, const int *neighbours, int count, float cutoff, float lj1, float lj2, int atoms) {
  for (int w = 0; w < WORK_PER_THREAD; ++w) {
    int i = (blockIdx.x * WORK_PER_THREAD + w) * BLOCK_SIZE + threadIdx.x;
    if (i >= atoms) return;
    float4 own = position[i];
    float3 f = make_float3(0, 0, 0);
    for (int j = 0; j < count; ++j) {
      float4 other = position[neighbours[j * atoms + i]];
      float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
      float r2 = dx * dx + dy * dy + dz * dz;
      if (r2 < cutoff) {
        float inverse = 1.0f / r2, r6 = inverse * inverse * inverse, strength = inverse * r6 * (lj1 * r6 - lj2);
        f.x += dx * strength, f.y += dy * strength, f.z += dz * strength;
      }
    }
    force[i] = f;
  }
}
