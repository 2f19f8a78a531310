// Texture and surface objects for arrays and for linear memory.
#include "check.h"
__global__ void blend(cudaTextureObject_t picture, cudaTextureObject_t line, cudaSurfaceObject_t to, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float value = tex2D<float>(picture, x + 1.0f, y + 0.5f) + tex1Dfetch<float>(line, x);
  surf2Dwrite(value, to, x * (int)sizeof(float), y);
}
int main() {
  const int w = 24, h = 6;
  std::vector<float> a(w * h), line(w), b(w * h);
  for (int i = 0; i < w * h; ++i) a[i] = i;
  for (int i = 0; i < w; ++i) line[i] = 1000 * i;
  const cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
  cudaArray_t picture, to;
  CHECK(cudaMallocArray(&picture, &channel, w, h));
  CHECK(cudaMallocArray(&to, &channel, w, h, cudaArraySurfaceLoadStore));
  CHECK(cudaMemcpy2DToArray(picture, 0, 0, a.data(), w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice));
  float* d;
  CHECK(cudaMalloc(&d, w * sizeof(float)));
  CHECK(cudaMemcpy(d, line.data(), w * sizeof(float), cudaMemcpyHostToDevice));
  cudaResourceDesc of_array = {}, of_line = {}, of_to = {};
  of_array.resType = of_to.resType = cudaResourceTypeArray;
  of_array.res.array.array = picture;
  of_to.res.array.array = to;
  of_line.resType = cudaResourceTypeLinear;
  of_line.res.linear.devPtr = d;
  of_line.res.linear.desc = channel;
  of_line.res.linear.sizeInBytes = w * sizeof(float);
  cudaTextureDesc filtered = {};
  filtered.addressMode[0] = filtered.addressMode[1] = cudaAddressModeClamp;
  filtered.filterMode = cudaFilterModeLinear;
  filtered.readMode = cudaReadModeElementType;
  cudaTextureObject_t t, l;
  cudaSurfaceObject_t s;
  CHECK(cudaCreateTextureObject(&t, &of_array, &filtered, nullptr));
  cudaTextureDesc plain = {};
  CHECK(cudaCreateTextureObject(&l, &of_line, &plain, nullptr));
  CHECK(cudaCreateSurfaceObject(&s, &of_to));
  blend<<<dim3(2, 2), dim3(16, 4)>>>(t, l, s, w, h);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy2DFromArray(b.data(), w * sizeof(float), to, 0, 0, w * sizeof(float), h, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) {
      const float right = a[y * w + (x + 1 < w ? x + 1 : x)];
      good = good && b[y * w + x] == (a[y * w + x] + right) / 2 + line[x];
    }
  }
  CHECK(cudaDestroyTextureObject(t));
  CHECK(cudaFreeArray(picture));
  return verdict(good);
}
