// Tiles copied by tensor maps with bit 21 of their second word cleared, as CuTe's make_tma_copy clears it for tensors under
// 128 KiB where the driver is 13.1 or older. Compiled with -arch=sm_90 -lcuda.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "check.h"
constexpr int side = 16;
__global__ void take_tile(const __grid_constant__ CUtensorMap map, int* to) {
  __shared__ alignas(128) int tile[side * side];
  __shared__ alignas(8) std::uint64_t barrier;
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const auto mbarrier = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.proxy.async.shared::cta;" ::"r"(mbarrier) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(int(sizeof tile)) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
                 ::"r"(at), "l"(&map), "r"(0), "r"(mbarrier) : "memory");
  }
  __syncthreads();
  asm volatile("{\n\t.reg .pred p;\nWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n\t@!p bra WAIT;\n\t}"
               ::"r"(mbarrier) : "memory");
  to[threadIdx.x] = tile[threadIdx.x];
}
int main() {
  bool good = true;
  // Megabytes lie between arrays: bit 21 of their addresses is set in some of them.
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
