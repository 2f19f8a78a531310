// What is not emulated: the program gets an error, and the function is named.
#include "check.h"
int main() {
  void* p;
  CHECK(cudaMalloc(&p, 256));
  cudaIpcMemHandle_t handle;
  const bool refused = cudaIpcGetMemHandle(&handle, p) == cudaErrorNotSupported;
  return verdict(refused && cudaGetLastError() == cudaErrorNotSupported);
}
