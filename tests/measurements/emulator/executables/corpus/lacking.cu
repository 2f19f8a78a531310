// A function that is not emulated returns an error, and its name is reported.
#include "check.h"
int main() {
  void* p;
  CHECK(cudaMalloc(&p, 256));
  cudaIpcMemHandle_t handle;
  const bool refused = cudaIpcGetMemHandle(&handle, p) == cudaErrorNotSupported;
  return verdict(refused && cudaGetLastError() == cudaErrorNotSupported);
}
