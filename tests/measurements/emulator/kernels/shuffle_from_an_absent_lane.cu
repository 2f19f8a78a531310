// The block has one and a half warps. With BROKEN, lanes shuffle from the absent half of the second warp.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  const unsigned t = threadIdx.x, mask = BROKEN && t >= 32 ? 0xffffu : __activemask();
  const float other = __shfl_down_sync(mask, a[t], BROKEN ? 16 : 4, BROKEN ? 32 : 16);  // found here
  o[t] = other;
}
