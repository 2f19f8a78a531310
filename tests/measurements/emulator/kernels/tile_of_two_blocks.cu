// Two threads of block 1 store equal values to the same elements. Both read these values from elements that no thread
// writes. With BROKEN, one of them stores two more elements, which block 0 also stores.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x, b = blockIdx.x;
  o[b * blockDim.x + t] = a[b * blockDim.x + t];
  if (t == 0) *reinterpret_cast<uint2*>(c + (b == 0 ? 6 : 4)) = *reinterpret_cast<const uint2*>(c + (b == 0 ? 26 : 24));
  if (t == 32 && b == 1) {
#if BROKEN
    *reinterpret_cast<uint4*>(c + 4) = *reinterpret_cast<const uint4*>(c + 24);  // found here
#else
    *reinterpret_cast<uint2*>(c + 4) = *reinterpret_cast<const uint2*>(c + 24);
#endif
  }
}
