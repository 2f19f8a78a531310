// Sum by compare-and-swap, as the programming guide does for doubles. The first read is a plain read, whose value may
// be torn or old; then the swap fails and the loop repeats. With BROKEN, a value is stored without this check.
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
