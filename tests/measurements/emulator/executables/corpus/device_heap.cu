// One launch allocates objects on the device's heap. Later launches use and free them.
#include "check.h"
struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
};
struct Square : Shape {
  int side;
  __device__ explicit Square(int s) : side(s) {}
  __device__ int area() const override { return side * side; }
};
struct Bar : Shape {
  int* lengths;
  int count, unset;
  __device__ explicit Bar(int n) : lengths(new int[n]), count(n) {
    for (int k = 0; k < n; ++k) lengths[k] = k;
  }
  __device__ ~Bar() override { delete[] lengths; }
  __device__ int area() const override {
    int sum = 0;
    for (int k = 0; k < count; ++k) sum += lengths[k];
    return sum;
  }
};
__device__ int* scratch;
__global__ void make(Shape** shapes, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  if (i % 2) shapes[i] = new Square(i);
  else shapes[i] = new Bar(i + 1);
}
__global__ void measure(Shape* const* shapes, int* areas, int n) {
  if (threadIdx.x < n) areas[threadIdx.x] = shapes[threadIdx.x]->area();
}
__global__ void drop(Shape** shapes, int n) {
  if (threadIdx.x < n) delete shapes[threadIdx.x];  // drop
}
__global__ void reserve(size_t bytes, bool* granted) {
  scratch = static_cast<int*>(malloc(bytes));
  *granted = scratch != nullptr;
}
__global__ void write_first() { scratch[0] = 1; }
__global__ void read(int at, int* to) { *to = scratch[at]; }  // read
__global__ void release() { free(scratch); }
bool granted(size_t bytes) {
  bool* flag;
  CHECK(cudaMallocManaged(&flag, sizeof(bool)));
  reserve<<<1, 1>>>(bytes, flag);
  CHECK(cudaDeviceSynchronize());
  return *flag;
}
int main() {
  constexpr int n = 48;
  Shape** shapes;
  int *areas, *value;
#ifdef FULL
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20));
  if (granted(2 << 20) || !granted(768 << 10)) return verdict(false);
  release<<<1, 1>>>();
  bool all = true;
  for (int k = 0; k < 40; ++k) {  // in total more bytes than the heap has
    all = all && granted(900 << 10);
    release<<<1, 1>>>();
  }
  return verdict(all && cudaDeviceSetLimit(cudaLimitMallocHeapSize, 2 << 20) == cudaErrorInvalidValue);
#endif
  CHECK(cudaMalloc(&shapes, n * sizeof(Shape*)));
  CHECK(cudaMallocManaged(&areas, n * sizeof(int)));
  CHECK(cudaMallocManaged(&value, sizeof(int)));
  make<<<1, 64>>>(shapes, n);
  measure<<<1, 64>>>(shapes, areas, n);
  CHECK(cudaDeviceSynchronize());
  bool good = true;
  for (int i = 0; i < n; ++i) good = good && areas[i] == (i % 2 ? i * i : i * (i + 1) / 2);
  drop<<<1, 64>>>(shapes, n);
#ifdef TWICE
  drop<<<1, 64>>>(shapes, n);
#endif
  good = good && granted(40);
  write_first<<<1, 1>>>();
#ifdef UNSET
  read<<<1, 1>>>(1, value);
#elif defined(OVERRUN)
  read<<<1, 1>>>(10, value);
#elif defined(RESET)
  CHECK(cudaDeviceReset());
  CHECK(cudaMallocManaged(&value, sizeof(int)));
  read<<<1, 1>>>(0, value);
#else
  read<<<1, 1>>>(0, value);
#endif
  release<<<1, 1>>>();
#ifdef FREED
  read<<<1, 1>>>(0, value);
#endif
  CHECK(cudaDeviceSynchronize());
  return verdict(good);
}
