// Copies by tensor maps whose second word has bit 21 cleared. CuTe's make_tma_copy clears it for tensors under
// 128 KiB if the driver is 13.1 or older. Compiled with -arch=sm_90 -lcuda.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "check.h"
__device__ void expect(unsigned mbarrier, int bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.proxy.async.shared::cta;" ::"r"(mbarrier) : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes) : "memory");
}
__device__ void wait(unsigned mbarrier) {
  __syncthreads();
  asm volatile("{\n\t.reg .pred p;\nWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n\t@!p bra WAIT;\n\t}"
               ::"r"(mbarrier) : "memory");
}
constexpr int side = 16;
__global__ void take_tile(const __grid_constant__ CUtensorMap map, int* to) {
  __shared__ alignas(128) int tile[side * side];
  __shared__ alignas(8) std::uint64_t barrier;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const auto mbarrier = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    expect(mbarrier, sizeof tile);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
                 ::"r"(at), "l"(&map), "r"(0), "r"(mbarrier) : "memory");
  }
  wait(mbarrier);
  to[threadIdx.x] = tile[threadIdx.x];
}
constexpr int channels = 4, width = 8, pixels = 16;
__global__ void take_pixels(const __grid_constant__ CUtensorMap map, int* to) {
  __shared__ alignas(128) int tile[pixels * channels];
  __shared__ alignas(8) std::uint64_t barrier;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const auto mbarrier = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    expect(mbarrier, sizeof tile);
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {0, -1, 0}], [%2], {%3};"
                 ::"r"(at), "l"(&map), "r"(mbarrier), "h"(static_cast<unsigned short>(2)) : "memory");
  }
  wait(mbarrier);
  to[threadIdx.x] = tile[threadIdx.x];
}
// Load two images of `width` pixels, shifted by one pixel as for the last tap of a convolution with three taps.
bool pixels_of_a_convolution() {
  std::vector<int> a(2 * width * channels), b(pixels * channels);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 100 + static_cast<int>(i);
  int *from, *to;
  CHECK(cudaMalloc(&from, sizeof(int) * a.size()));
  CHECK(cudaMalloc(&to, sizeof(int) * b.size()));
  CHECK(cudaMemcpy(from, a.data(), sizeof(int) * a.size(), cudaMemcpyHostToDevice));
  CUtensorMap map;
  const cuuint64_t sizes[] = {channels, width, 2}, strides[] = {channels * sizeof(int), width * channels * sizeof(int)};
  const cuuint32_t steps[] = {1, 1, 1};
  const int lower[] = {-1}, upper[] = {-1};
  if (cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 3, from, sizes, strides, lower, upper, channels, pixels, steps,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    return false;
  }
  take_pixels<<<1, pixels * channels>>>(map, to);
  CHECK(cudaMemcpy(b.data(), to, sizeof(int) * b.size(), cudaMemcpyDeviceToHost));
  bool good = true;
  for (int p = 0; p < pixels; ++p) {
    const int at = p % width + 1;
    for (int c = 0; c < channels; ++c) good = good && b[p * channels + c] == (at < width ? a[(p / width * width + at) * channels + c] : 0);
  }
  return good;
}
int main() {
  bool good = pixels_of_a_convolution();
  // Arrays are megabytes apart, so that some addresses have bit 21 set.
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<int> a(side * side), b(side * side);
    for (int i = 0; i < side * side; ++i) a[i] = turn * 1000 + i;
    int *from, *to;
    CHECK(cudaMalloc(&from, sizeof(int) * side * side));
    CHECK(cudaMalloc(&to, sizeof(int) * side * side));
    CHECK(cudaMemcpy(from, a.data(), sizeof(int) * side * side, cudaMemcpyHostToDevice));
    CUtensorMap map;
    const cuuint64_t sizes[] = {side, side}, strides[] = {side * sizeof(int)};
    const cuuint32_t box[] = {side, side}, steps[] = {1, 1};
    if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, from, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
      return verdict(false);
    }
    reinterpret_cast<std::uint64_t*>(&map)[1] &= ~(std::uint64_t{1} << 21);
    take_tile<<<1, side * side>>>(map, to);
    CHECK(cudaMemcpy(b.data(), to, sizeof(int) * side * side, cudaMemcpyDeviceToHost));
    good = good && a == b;
  }
  return verdict(good);
}
