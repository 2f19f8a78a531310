// nvcc 13.0 compiles this file to alloca.ptx with -arch=sm_90 -ptx.
__device__ __noinline__ unsigned reversed(unsigned n, int base) {
  int count = 0;
  for (unsigned m = n; m; m /= base) ++count;
  unsigned char* digits = (unsigned char*)alloca(count);
  for (int i = 0; i < count; ++i) { digits[i] = n % base; n /= base; }
  unsigned number = 0;
  for (int i = 0; i < count; ++i) number = number * base + digits[i];
  return number;
}
extern "C" __global__ void k(unsigned* o, int base) { o[threadIdx.x] = reversed(threadIdx.x * 1001 + 7, base); }
