// Queries of device properties and function attributes, and a kernel with more than 48 KiB of shared memory.
#include <cstring>

#include "check.h"
extern __shared__ int big[];
__global__ void reverse(int* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) big[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = big[n - 1 - i];
}
__global__ void __launch_bounds__(128) bounded(int* x) { x[threadIdx.x] = 1; }
int main() {
  struct {
    cudaDeviceProp properties;
    unsigned char behind[64];
  } room;
  std::memset(&room, 0xff, sizeof room);
  cudaDeviceProp& p = room.properties;
  CHECK(cudaGetDeviceProperties(&p, 0));
  for (const unsigned char c : room.behind) {
    if (c != 0xff) return verdict(false);
  }
  for (const char* c = reinterpret_cast<const char*>(p.reserved); c != reinterpret_cast<const char*>(p.reserved + 1); ++c) {
    if (*c != 0) return verdict(false);
  }
  int count = 0, processors = 0;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  std::printf("%s\n", p.name);
  bool good = count == 1 && p.major == 9 && p.minor == 0 && p.multiProcessorCount == processors && p.warpSize == 32 &&
              p.sharedMemPerBlockOptin == 227 * 1024 && p.sharedMemPerMultiprocessor == 228 * 1024 && p.maxThreadsPerBlock == 1024 &&
              p.maxBlocksPerMultiProcessor == 32 && p.regsPerMultiprocessor == 65536 && p.maxThreadsPerMultiProcessor == 2048 &&
              p.cooperativeLaunch == 1 && p.clusterLaunch == 1 && p.managedMemory == 1 && p.concurrentKernels == 1 &&
              p.reservedSharedMemPerBlock == 1024 && p.unifiedAddressing == 1 && p.totalConstMem == 65536 && p.maxGridSize[1] == 65535;
  int persisting = 0;
  CHECK(cudaDeviceGetAttribute(&persisting, cudaDevAttrMaxPersistingL2CacheSize, 0));
  good = good && persisting == p.persistingL2CacheMaxSize && persisting == p.l2CacheSize / 4 * 3 && p.accessPolicyMaxWindowSize > 0;
  cudaFuncAttributes f;
  CHECK(cudaFuncGetAttributes(&f, bounded));
  good = good && f.maxThreadsPerBlock == 128 && f.ptxVersion == 80 && f.binaryVersion == 90;
  const int n = 20000;
  int* d;
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  std::vector<int> a(n);
  for (int i = 0; i < n; ++i) a[i] = i;
  CHECK(cudaMemcpy(d, a.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, n * sizeof(int)));
  reverse<<<1, 256, n * sizeof(int)>>>(d, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(a.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) good = good && a[i] == n - 1 - i;
  size_t free_bytes, total;
  CHECK(cudaMemGetInfo(&free_bytes, &total));
  good = good && total == p.totalGlobalMem && free_bytes == total - n * sizeof(int);
  return verdict(good);
}
