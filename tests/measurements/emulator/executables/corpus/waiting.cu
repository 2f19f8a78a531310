// Prints its process id after a launch, and then waits for a minute.
#include <cstdio>
#include <unistd.h>

__global__ void set(int* x) { *x = 1; }

int main() {
  int* x;
  cudaMalloc(&x, sizeof *x);
  set<<<1, 1>>>(x);
  cudaDeviceSynchronize();
  std::printf("%d\n", int(getpid()));
  std::fflush(stdout);
  sleep(60);
}
