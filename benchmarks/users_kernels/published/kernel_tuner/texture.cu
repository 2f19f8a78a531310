// Rotation of an image that is read through a texture.
__global__ void rotate(float *out, cudaTextureObject_t image, int width, int height, float sine, float cosine) {
  int x = blockIdx.x * block_size_x + threadIdx.x, y = blockIdx.y * block_size_y + threadIdx.y;
  if (x >= width || y >= height) return;
  float u = x - width / 2.0f, v = y - height / 2.0f;
  out[y * width + x] = tex2D<float>(image, u * cosine - v * sine + width / 2.0f, v * cosine + u * sine + height / 2.0f);
}
