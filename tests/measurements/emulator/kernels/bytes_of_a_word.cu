// Two warps write alternate bytes of the same words, and read each other's bytes. With BROKEN the barrier is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  unsigned char* const bytes = reinterpret_cast<unsigned char*>(c);
  const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
  bytes[2 * lane + warp] = t;
  if (!BROKEN) __syncthreads();
  const unsigned x = bytes[2 * lane + 1 - warp];  // found here
  o[t] = a[t] + float(x);
}
