// An unwritten flag chooses between two values. The chosen value is only used with BROKEN.
extern "C" __global__ void kernel(const float* a, float* o, unsigned* c) {
  const unsigned t = threadIdx.x;
  float x = a[t];
  asm volatile("{\n.reg .pred p;\n.reg .b32 u;\nsetp.ne.u32 p, u, 0;\n@p bra OTHER;\nadd.f32 %0, %0, 1.0;\nOTHER:\n}" : "+f"(x));  // found here
  o[t] = BROKEN ? x : a[t];
}
