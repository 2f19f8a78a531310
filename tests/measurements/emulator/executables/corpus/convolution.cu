// The host fills constant memory. With -DFORGET it does not.
#include "check.h"
__constant__ float taps[5];
__global__ void convolve(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = -2; k <= 2; ++k) sum += taps[k + 2] * (i + k >= 0 && i + k < n ? in[i + k] : 0);
  out[i] = sum;
}
int main() {
  const int n = 100;
  const float h[5] = {1, 2, 3, 2, 1};
  std::vector<float> a(n), b(n);
  for (int i = 0; i < n; ++i) a[i] = i % 9;
  float *in, *out;
  CHECK(cudaMalloc(&in, n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * sizeof(float)));
  CHECK(cudaMemcpy(in, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
#ifndef FORGET
  CHECK(cudaMemcpyToSymbol(taps, h, sizeof h));
#endif
  convolve<<<2, 64>>>(in, out, n);
  CHECK(cudaMemcpy(b.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  bool good = true;
  for (int i = 0; i < n; ++i) {
    float s = 0;
    for (int k = -2; k <= 2; ++k) s += h[k + 2] * (i + k >= 0 && i + k < n ? a[i + k] : 0);
    good = good && s == b[i];
  }
  return verdict(good);
}
