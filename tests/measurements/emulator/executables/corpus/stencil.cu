// A stencil whose iterations swap two arrays, as in hotspot. With -DRACE there is only one array.
#include <utility>

#include "check.h"
__global__ void diffuse(const float* from, float* to, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const int i = y * width + x;
  const float sum = from[i - 1] + from[i + 1] + from[i - width] + from[i + width];
  to[i] = 0.25f * sum;  // here
}
int main() {
  const int w = 20, h = 18;
  std::vector<float> a(w * h), b;
  for (int i = 0; i < w * h; ++i) a[i] = i * 13 % 31;
  b = a;
  float* d[2];
  for (float*& p : d) {
    CHECK(cudaMalloc(&p, a.size() * sizeof(float)));
    CHECK(cudaMemcpy(p, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
  }
#ifdef RACE
  d[1] = d[0];
#endif
  for (int step = 0; step < 4; ++step) {
    diffuse<<<dim3(2, 3), dim3(16, 8)>>>(d[0], d[1], w, h);
    std::swap(d[0], d[1]);
    std::vector<float> c = a;
    for (int y = 1; y < h - 1; ++y)
      for (int x = 1; x < w - 1; ++x) c[y * w + x] = 0.25f * (a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x]);
    a = c;
  }
  CHECK(cudaMemcpy(b.data(), d[0], a.size() * sizeof(float), cudaMemcpyDeviceToHost));
  bool good = true;
  for (size_t i = 0; i < a.size(); ++i) good = good && std::fabs(a[i] - b[i]) < 1e-4f;
  return verdict(good);
}
