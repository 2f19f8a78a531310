// Threads beyond the end of an image wrap around and store its first elements again. The values are equal, since all
// stores to an element read the same source element, which no thread writes. With BROKEN, the sources differ.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x;
  o[t] = a[t];
#pragma unroll
  for (unsigned k = 0; k < 2; ++k) {
    const unsigned i = t + k * 64;
    c[i % 24] = c[40 + (BROKEN ? (i - i / 24 % 2) % 24 : i % 24)];  // found here
  }
}
