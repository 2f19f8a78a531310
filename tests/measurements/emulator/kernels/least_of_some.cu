// The minimum of a low number and an unwritten byte often equals the low number. With BROKEN, one such minimum is
// stored.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ signed char tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = static_cast<signed char>(a[t]);
  __syncthreads();
  const int least = min(static_cast<int>(tile[t]), -100);  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? least : 0;
}
