// With BROKEN, lanes match unwritten values. Equal values are unlikely, but the result is undefined.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < (BROKEN ? 40 : 64)) tile[t] = t / 2;
  __syncthreads();
  const unsigned value = tile[t];  // found here
  const unsigned same = __popc(__match_any_sync(0xffffffff, value));
  o[t] = t < 40 ? same : 0.0f;
}
