// Sum by compare-and-swap, as the programming guide does for doubles. The first, plain read may be torn or old, which
// the swap checks. With BROKEN an unchecked value is stored.
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
