// Uses the driver API: loads PTX text of the program as a module and as a library. Compiled with -lcuda.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { if ((call) != CUDA_SUCCESS) { std::printf("%s failed\n", #call); std::exit(3); } } while (0)
static const char ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 n) {
  .reg .pred %p<2>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.s32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3];
  add.s32 %r6, %r6, %r6;
  st.global.u32 [%rd3], %r6;
DONE:
  ret;
}
)";
int main() {
  CHECK(cuInit(0));
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, ptx));
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, "twice"));
  int n = 100;
  std::vector<int> a(n);
  for (int i = 0; i < n; ++i) a[i] = i;
  CUdeviceptr d;
  CHECK(cuMemAlloc(&d, n * sizeof(int)));
  CHECK(cuMemcpyHtoD(d, a.data(), n * sizeof(int)));
  void* arguments[] = {&d, &n};
  CHECK(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK(cuCtxSynchronize());
  int times = 2;
#if CUDA_VERSION >= 12000
  CUlibrary library;
  CUkernel kernel;
  CHECK(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "twice"));
  CHECK(cuKernelGetFunction(&function, kernel));
  CHECK(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK(cuLaunchKernel((CUfunction)kernel, 2, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  CHECK(cuLibraryUnload(library));
  times = 8;
#endif
  CHECK(cuMemcpyDtoH(a.data(), d, n * sizeof(int)));
  const void* table;
  const CUuuid unknown = {};  // NVRTC queries a driver function that has no replacement
  bool good = cuGetExportTable(&table, &unknown) != CUDA_SUCCESS;
  for (int i = 0; i < n; ++i) good = good && a[i] == times * i;
  std::printf(good ? "PASS\n" : "FAIL\n");
  return good ? 0 : 4;
}
