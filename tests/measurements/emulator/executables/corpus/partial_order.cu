// Launch attributes that order only a part of a kernel are rejected with an error that names the attribute. Launches
// without these attributes work.
#include <cuda.h>

#include <cstring>

#include "check.h"

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main(int count, char** arguments) {
  const char* const case_name = count > 1 ? arguments[1] : "";
  int* x;
  CHECK(cudaMalloc(&x, 128));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributePriority;
  if (std::strcmp(case_name, "programmatic") == 0) {
    attribute[0].id = cudaLaunchAttributeProgrammaticEvent;
    attribute[0].val.programmaticEvent.event = event;
  } else if (std::strcmp(case_name, "completion") == 0) {
    attribute[0].id = cudaLaunchAttributeLaunchCompletionEvent;
    attribute[0].val.launchCompletionEvent.event = event;
  }
  if (std::strcmp(case_name, "driver") == 0) {
    CUlaunchAttribute recorded = {};
    recorded.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    CUlaunchConfig launch = {};
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1, launch.blockDimX = 32;
    launch.attrs = &recorded, launch.numAttrs = 1;
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(fill)));
    void* args[] = {&x};
    return verdict(cuLaunchKernelEx(&launch, reinterpret_cast<CUfunction>(function), args, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 32, config.attrs = attribute, config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, fill, x);
  CHECK(cudaDeviceSynchronize());
  return verdict(error == (*case_name == '\0' ? cudaSuccess : cudaErrorNotSupported));
}
