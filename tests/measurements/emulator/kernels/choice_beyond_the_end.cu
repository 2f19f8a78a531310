// Unwritten values decide a branch, and the result is multiplied by 0. With BROKEN one such result is used.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = t;
  __syncthreads();
  unsigned larger = 7;
  asm volatile("{\n.reg .pred p;\nsetp.gt.u32 p, %1, 20;\n@p bra OTHER;\nadd.u32 %0, %0, 1;\nOTHER:\n}" : "+r"(larger) : "r"(tile[t]));  // found here
  o[t] = larger * (t < (BROKEN ? 41 : 40) ? 1 : c[0]);
}
