// Unwritten values are compared with a constant, and the results are multiplied by 0. With BROKEN, one result is used.
// This use must be reported, although unwritten memory hardly ever holds the constant.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  __shared__ unsigned tile[64];
  const unsigned t = threadIdx.x;
  if (t < 40) tile[t] = t;
  __syncthreads();
  const unsigned weight = t < (BROKEN ? 41 : 40) ? 1 : c[0];
  o[t] = weight * (tile[t] == 123456789u ? 1 : 2) + a[t];  // found here
}
