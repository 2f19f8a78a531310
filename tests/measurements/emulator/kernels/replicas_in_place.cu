// As in Triton's layouts, surplus threads load the same elements as other threads, but store no elements of c. The
// values that they load are used only with BROKEN.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x;
  unsigned x;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(c + t % 32));  // found here
  o[t] = a[t] + float(BROKEN ? x : 0);
  if (t < 32) c[t] = x + 1;
}
