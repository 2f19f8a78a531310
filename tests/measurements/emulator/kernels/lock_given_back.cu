// The last block releases a lock after it has seen that all others are done. With BROKEN it does not wait.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  o[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
  if (threadIdx.x != 0) return;
  if (blockIdx.x + 1 < gridDim.x) {
    asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(c) : "memory");
    return;
  }
  unsigned done = 0;
  do {
    asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(done) : "l"(BROKEN ? c + 1 : c) : "memory");
  } while (!BROKEN && done + 1 != gridDim.x);
  c[0] = 0;  // found here
}
