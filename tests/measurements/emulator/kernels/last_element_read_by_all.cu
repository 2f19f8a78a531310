// Threads beyond the end load the last element while its owner overwrites it. They use its value only with BROKEN.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  constexpr unsigned n = 50, each = 16;
  const unsigned t = threadIdx.x;
  unsigned sum = 0;
  for (unsigned i = t % each; i < n; i += 2 * each) {
    unsigned x[2];
#pragma unroll
    for (unsigned u = 0; u < 2; ++u) x[u] = c[min(n - 1, i + u * each)];
#pragma unroll
    for (unsigned u = 0; u < 2; ++u) {
      if (t < each && i + u * each < n) c[i + u * each] = x[u] + 1;  // found here
      if (BROKEN) sum += x[u];
    }
  }
  o[t] = a[t] + float(sum);
}
