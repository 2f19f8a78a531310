// A chain of three kernels, launched so that each may begin before the preceding kernel has ended.
// The first argument selects a fault or a correct variant. With -DMEET, one of the kernels has a grid barrier.
#ifdef MEET
#include <cooperative_groups.h>
#endif
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)                                                         \
  do {                                                                      \
    const cudaError_t error = (call);                                       \
    if (error != cudaSuccess) return std::printf("%s\n", cudaGetErrorString(error)), 1; \
  } while (false)

constexpr int n = 256, block = 64;

// As in CUB, code for GPUs before sm_90 has no such instructions, but the host sets the launch attribute for all GPUs.
#if __CUDA_ARCH__ >= 900
__device__ void let_next_begin() { cudaTriggerProgrammaticLaunchCompletion(); }
__device__ void wait_for_previous() { cudaGridDependencySynchronize(); }
#else
__device__ void let_next_begin() {}
__device__ void wait_for_previous() {}
#endif

__device__ int before(bool wait, const int* x, int i) {
  let_next_begin();
  const int early = wait ? 0 : x[i];
  if (wait) wait_for_previous();
  return wait ? x[i] : early;
}

__global__ void first(int* x, bool triggers) {
  x[blockIdx.x * block + threadIdx.x] = blockIdx.x * block + threadIdx.x;
  if (triggers) let_next_begin();
}
// Writes memory that a preceding kernel reads and no preceding kernel writes.
__global__ void refill(int* weight, bool wait) {
  if (wait) wait_for_previous();
  weight[blockIdx.x * block + threadIdx.x] = 0;
}
__global__ void second(const int* x, const int* weight, int* y, bool wait) {
  const int i = blockIdx.x * block + threadIdx.x;
  const int w = weight[i];  // no preceding kernel writes weight
  y[i] = before(wait, x, i) * w;
}
// Reads the first kernel's output. The read is ordered if this kernel waits, or if the second kernel waits before it
// allows this kernel to begin.
__global__ void third(const int* x, const int* y, int* z, bool wait) {
  const int i = blockIdx.x * block + threadIdx.x;
  const int v = before(wait, x, i);
  if (!wait) wait_for_previous();
  z[i] = v + y[i];
}
__global__ void meet(int* x) {
#ifdef MEET
  cooperative_groups::this_grid().sync();
#endif
  x[blockIdx.x * block + threadIdx.x] += 1;
}

template <class... P, class... A>
cudaError_t launch(cudaStream_t stream, int attribute, void (*kernel)(P...), A... arguments) {
  cudaLaunchAttribute attributes[1] = {};
  attributes[0].id = attribute == 2 ? cudaLaunchAttributeCooperative : cudaLaunchAttributeProgrammaticStreamSerialization;
  if (attribute == 2) attributes[0].val.cooperative = 1;
  if (attribute == 1) attributes[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = n / block, config.blockDim = block, config.stream = stream;
  config.attrs = attributes, config.numAttrs = attribute != 0 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, P(arguments)...);
}

int main(int count, char** words) {
  const auto says = [&](const char* word) { return count > 1 && std::strcmp(words[1], word) == 0; };
  cudaStream_t stream;
  int *x, *weight, *y, *z, host[n];
  CHECK(cudaStreamCreate(&stream));
  for (int** p : {&x, &weight, &y, &z}) CHECK(cudaMalloc(p, sizeof host));
  for (int i = 0; i < n; ++i) host[i] = 3;
  CHECK(cudaMemcpy(weight, host, sizeof host, cudaMemcpyHostToDevice));
  if (says("meets") || says("parts")) {
    CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(launch(stream, says("meets") ? 2 : 0, meet, x));
    CHECK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    return std::puts(host[n - 1] == 4 ? "PASS" : "FAIL"), 0;
  }
  CHECK(launch(stream, 0, first, x, says("triggered")));
  if (says("synchronized")) CHECK(cudaStreamSynchronize(stream));
  if (says("copied")) CHECK(cudaMemcpyAsync(y, weight, sizeof host, cudaMemcpyDeviceToDevice, stream));
  const bool late = says("late") || says("ordinary") || says("synchronized") || says("copied") || says("triggered");
  CHECK(launch(stream, !says("ordinary"), second, x, weight, y, !late));
  CHECK(launch(stream, 1, third, x, y, z, !says("skipped")));
  if (says("refilled") || says("overwritten")) CHECK(launch(stream, 1, refill, weight, says("refilled")));
  CHECK(cudaMemcpy(host, z, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    if (host[i] != 4 * i) return std::puts("FAIL"), 1;
  }
  std::puts("PASS");
}
