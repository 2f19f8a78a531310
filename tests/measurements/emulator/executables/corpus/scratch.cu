// Sums of tiles are stored in device memory. The last tile has unwritten elements, so its sum is undefined
// and must not be used. The argument selects the code that nevertheless uses this sum.
#include <cstring>
#include <vector>

#include "check.h"

constexpr int count = 100, tile = 64;

__global__ void sums_of_tiles(const int* values, int* sums) {
  __shared__ int of_tile[tile];
  const int i = blockIdx.x * tile + threadIdx.x;
  if (i < count) of_tile[threadIdx.x] = values[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < tile; ++k) sum += of_tile[k];
  sums[blockIdx.x] = sum;
}

__global__ void add_before(const int* values, const int* sums, int tiles, int* out) {
  const int i = threadIdx.x;
  int sum = 0;
  for (int k = 0; k < tiles; ++k) sum += sums[k];
  if (i < count) out[i] = values[i] + sum;
}

__global__ void clear(int* sums) { sums[threadIdx.x] = 0; }

int main(int argc, char** argv) {
  const char* case_name = argc > 1 ? argv[1] : "";
  const auto is = [case_name](const char* name) { return std::strcmp(case_name, name) == 0; };
  std::vector<int> values(count), got(count), sums(2);
  for (int i = 0; i < count; ++i) values[i] = i;
  int *in, *scratch, *other, *out;
  CHECK(cudaMalloc(&in, count * sizeof(int)));
  CHECK(cudaMalloc(&out, count * sizeof(int)));
  CHECK(cudaMalloc(&other, 2 * sizeof(int)));
  if (is("managed")) {
    CHECK(cudaMallocManaged(&scratch, 2 * sizeof(int)));
  } else {
    CHECK(cudaMalloc(&scratch, 2 * sizeof(int)));
  }
  CHECK(cudaMemcpy(in, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  sums_of_tiles<<<2, tile>>>(in, scratch);
  if (is("cleared")) clear<<<1, 2>>>(scratch);
  if (is("filled")) CHECK(cudaMemset(scratch, 0, 2 * sizeof(int)));
  add_before<<<1, 128>>>(in, scratch, is("launch") ? 2 : 1, out);
  if (is("host") || is("cleared") || is("filled")) {
    CHECK(cudaMemcpy(sums.data(), scratch, 2 * sizeof(int), cudaMemcpyDeviceToHost));
  }
  if (is("copy") || is("half")) {
    CHECK(cudaMemcpy(other, scratch, (is("half") ? 1 : 2) * sizeof(int), cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(sums.data(), other, 2 * sizeof(int), cudaMemcpyDeviceToHost));
  }
  CHECK(cudaMemcpy(got.data(), out, count * sizeof(int), cudaMemcpyDeviceToHost));
  const int before = is("cleared") || is("filled") ? 0 : tile * (tile - 1) / 2;
  bool good = true;
  for (int i = 0; i < count; ++i) good = good && (is("launch") || got[i] == i + before);
  return verdict(good);
}
