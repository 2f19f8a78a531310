// Sum by compare-and-swap, as in the programming guide's atomicAdd for doubles. The first read is not atomic. If its
// value is torn or old, the swap fails and the loop repeats. With BROKEN, the value is stored even if the swap fails.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned seen = *c, expected;  // found here
  do {
    expected = seen;
    seen = atomicCAS(c, expected, __float_as_uint(__uint_as_float(expected) + a[i]));
    if (BROKEN) o[i] = expected;
  } while (seen != expected);
  if (!BROKEN) o[i] = a[i];
}
