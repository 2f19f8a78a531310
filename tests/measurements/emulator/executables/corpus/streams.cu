// Streams with events, callbacks, pinned memory, and asynchronous copies and allocations.
#include "check.h"
__global__ void square(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= x[i];
}
static int called = 0;
static void CUDART_CB note(void* data) { called += *static_cast<int*>(data); }
int main() {
  const int n = 512, parts = 4, each = n / parts;
  float* host;
  CHECK(cudaMallocHost(&host, n * sizeof(float)));
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaStream_t streams[parts];
  cudaEvent_t done;
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  int one = 1;
  for (int k = 0; k < parts; ++k) {
    CHECK(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
    float* d;
    CHECK(cudaMallocAsync((void**)&d, each * sizeof(float), streams[k]));
    CHECK(cudaMemcpyAsync(d, host + k * each, each * sizeof(float), cudaMemcpyHostToDevice, streams[k]));
    square<<<each / 64, 64, 0, streams[k]>>>(d, each);
    CHECK(cudaMemcpyAsync(host + k * each, d, each * sizeof(float), cudaMemcpyDeviceToHost, streams[k]));
    CHECK(cudaFreeAsync(d, streams[k]));
    CHECK(cudaLaunchHostFunc(streams[k], note, &one));
    CHECK(cudaEventRecord(done, streams[k]));
    CHECK(cudaStreamWaitEvent(streams[0], done, 0));
  }
  for (cudaStream_t s : streams) {
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamDestroy(s));
  }
  bool good = called == parts;

  cudaMemPool_t pool, own;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  unsigned long long keep = 1 << 20, kept = 0, used = ~0ull;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&own, &properties));
  void* of_own;
  CHECK(cudaMallocFromPoolAsync(&of_own, 256, own, 0));
  CHECK(cudaFreeAsync(of_own, 0));
  CHECK(cudaMemPoolDestroy(own));
  good = good && kept == keep && used < keep && own != pool;
  for (int i = 0; i < n; ++i) good = good && host[i] == static_cast<float>(i) * i;
  CHECK(cudaFreeHost(host));
  return verdict(good);
}
