// Test which points are inside a polygon, whose corners are in constant memory.
__constant__ float2 d_vertices[VERTICES];

__global__ void pnpoly(int *bitmap, const float2 *points, int n) {
  int i = blockIdx.x * block_size_x * tile_size + threadIdx.x;
  bool inside[tile_size] = {};
  float2 point[tile_size];
  for (int t = 0; t < tile_size; ++t)
    point[t] = i + t * block_size_x < n ? points[i + t * block_size_x] : make_float2(0.0f, 0.0f);
  for (int j = 0, k = VERTICES - 1; j < VERTICES; k = j++) {
    float2 vj = d_vertices[j], vk = d_vertices[k];
    float slope = (vk.x - vj.x) / (vk.y - vj.y);
    for (int t = 0; t < tile_size; ++t) {
#if between_method == 0
      bool between = (vj.y > point[t].y) != (vk.y > point[t].y);
#else
      bool between = (vj.y <= point[t].y && point[t].y < vk.y) || (vk.y <= point[t].y && point[t].y < vj.y);
#endif
      if (between && point[t].x < slope * (point[t].y - vj.y) + vj.x) inside[t] = !inside[t];
    }
  }
  for (int t = 0; t < tile_size; ++t)
    if (i + t * block_size_x < n) bitmap[i + t * block_size_x] = inside[t];
}
