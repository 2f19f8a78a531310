// The smaller of a low number and of a byte that nobody has written is often the number.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ signed char tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = static_cast<signed char>(a[t]);
  __syncthreads();
  const int least = min(static_cast<int>(tile[t]), -100);  // found here
  o[t] = t < (BROKEN ? 41 : 40) ? least : 0;
}
