// Two warps add the same terms in different orders and store the sums to one element. With BROKEN the sums differ.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ float sum;
  const unsigned t = threadIdx.x;
  float own = 1.0f / 3 + a[0];
  if (t >= 32) own += BROKEN ? 6e-8f : 0;
  sum = own;  // found here
  __syncthreads();
  o[t] = sum;
}
