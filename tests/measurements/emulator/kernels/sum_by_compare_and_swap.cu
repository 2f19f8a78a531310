// Sum by compare-and-swap, as in the programming guide's atomicAdd for doubles. The first read is plain, so its value
// may be torn or old. Then the swap fails and the loop repeats. With BROKEN, a value is stored without this check.
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
