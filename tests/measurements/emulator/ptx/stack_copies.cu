// A partly written struct is copied. nvcc -G compiles it to stack_copies.ptx, which copies field by field.
struct Pair {
  float x;
  char tag;
  int count;
};
__device__ Pair part_of(float x, bool whole) {
  Pair p;
  p.x = x;
  if (whole) {
    p.tag = 1;
    p.count = 2;
  }
  return p;  // the other fields are unwritten
}
extern "C" __global__ void right(float* o, const float* a) {
  Pair p = part_of(a[threadIdx.x], false);
  Pair q = p;
  o[threadIdx.x] = q.x * 2;
}
extern "C" __global__ void wrong(float* o, const float* a) {
  Pair p = part_of(a[threadIdx.x], false);
  Pair q = p;
  o[threadIdx.x] = q.x * q.count;
}
extern "C" __global__ void decides(float* o, const float* a) {
  Pair q = part_of(a[threadIdx.x], false);
  if (q.tag) o[threadIdx.x] = q.x;
}
