// A warp's sum through volatile shared memory, as written before Volta. With BROKEN, __syncwarp is missing.
extern "C" __global__ void kernel(const float* a, float* o, unsigned*) {
  __shared__ volatile float s[64];
  const unsigned t = threadIdx.x;
  s[t] = a[t];
  s[t + 32] = 0;
  __syncwarp();
  for (unsigned step = 16; step > 0; step /= 2) {
    const float other = s[t + step];  // found here
    if (!BROKEN) __syncwarp();
    s[t] = s[t] + other;
    if (!BROKEN) __syncwarp();
  }
  o[t] = s[0] + float(t);
}
