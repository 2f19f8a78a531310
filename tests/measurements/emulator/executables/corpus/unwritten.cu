// Device memory that was never written. The argument selects the code that reads it.
#include <cstring>

#include "check.h"

constexpr int count = 256, half = count / 2, bytes = count * sizeof(int);

__constant__ int table[8];

__global__ void sum(int* to, const int* from, int n) {
  int all = 0;
  for (int i = 0; i < n; ++i) all += from[i];
  *to = all;
}
__global__ void fill(int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i;
}
__global__ void look_up(int* to, int n) { to[threadIdx.x] = table[threadIdx.x % n]; }

int main(int argc, char** argv) {
  const char* case_name = argc > 1 ? argv[1] : "";
  const auto is = [case_name](const char* name) { return std::strcmp(case_name, name) == 0; };
  int *x, *y, host[count] = {};
  CHECK(cudaMalloc(&x, bytes));
  CHECK(cudaMalloc(&y, bytes));
  bool good = true;
  if (is("sum") || is("sum_half") || is("sum_written")) {
    if (!is("sum")) CHECK(cudaMemset(x, 0, is("sum_half") ? bytes / 2 : bytes));
    sum<<<1, 1>>>(y, x, count);
    CHECK(cudaMemcpy(host, y, sizeof(int), cudaMemcpyDeviceToHost));
  } else if (is("copy")) {  // as if the launch that writes y had been forgotten
    CHECK(cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost));
  } else if (is("tail") || is("tail_compared")) {
    fill<<<1, half>>>(y, half);
    CHECK(cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < (is("tail") ? half : count); ++i) good = good && host[i] == i;
  } else if (is("carried")) {  // unwritten memory is copied within the device; a pitched copy skips padding
    int* pitched;
    std::size_t pitch;
    CHECK(cudaMallocPitch((void**)&pitched, &pitch, 40, 4));
    fill<<<1, 40>>>(x, 40);
    CHECK(cudaMemcpy2D(pitched, pitch, x, 40, 40, 4, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(y, x, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(host, 40, pitched, pitch, 40, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(host, y, 40 * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(x, y, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(pitched));
  } else if (is("scratch")) {  // the sum of unwritten memory is overwritten before it is used
    sum<<<1, 1>>>(y, x, count);
    fill<<<2, half>>>(y, count);
    CHECK(cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost));
  } else if (is("table") || is("table_part")) {
    for (int i = 0; i < 8; ++i) host[i] = i;
    CHECK(cudaMemcpyToSymbol(table, host, sizeof(host + 0)));  // a fault: host + 0 is a pointer, so sizeof is 8
    look_up<<<1, 32>>>(y, is("table") ? 8 : 2);
    CHECK(cudaMemcpy(host, y, 32 * sizeof(int), cudaMemcpyDeviceToHost));
  }
  CHECK(cudaFree(x));
  CHECK(cudaFree(y));
  return verdict(good);
}
