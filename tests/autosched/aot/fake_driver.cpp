// Fake CUDA driver with two GPUs. It counts loads and launches, and can make one function fail, to test launchers.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

namespace {
char contexts[2];
void* current = nullptr;
int loads[2], launches = 0, failing = 0;
char failing_name[64] = "";
unsigned passed[16];  // the first four bytes of each parameter of the last launch
int result(const char* name) { return std::strcmp(name, failing_name) == 0 ? failing : 0; }
}  // namespace

API void fake_fail(const char* name, int code) { std::strncpy(failing_name, name, sizeof failing_name - 1), failing = code; }
API void fake_context(int n) { current = &contexts[n]; }
API int fake_loads(int n) { return loads[n]; }
API int fake_launches() { return launches; }
API unsigned fake_parameter(int n) { return passed[n]; }

API int cuInit(unsigned) { return result("cuInit"); }
API int cuDeviceGetCount(int* n) { return *n = 2, 0; }
API int cuDeviceGet(int* to, int n) { return n < 2 ? (*to = n, 0) : 101; }
API int cuDeviceGetAttribute(int* to, int a, int) { return *to = a == 75 ? 8 : 0, 0; }
API int cuDeviceGetName(char* to, int, int) { return std::strcpy(to, "fake"), 0; }
API int cuDevicePrimaryCtxRetain(void** to, int n) { return *to = &contexts[n], 0; }
API int cuCtxSetCurrent(void* c) { return current = c, 0; }
API int cuCtxGetCurrent(void** to) { return *to = current, 0; }
API int cuCtxGetDevice(int* to) { return *to = current == &contexts[1], 0; }
API int cuModuleLoadData(void** to, const void*) { return loads[current == &contexts[1]]++, *to = &contexts, result("cuModuleLoadData"); }
API int cuModuleGetFunction(void** to, void*, const char*) { return *to = &contexts, result("cuModuleGetFunction"); }
API int cuFuncSetAttribute(void*, int, int) { return result("cuFuncSetAttribute"); }
API int cuMemAlloc_v2(std::uint64_t* to, std::size_t) { return *to = 4096, result("cuMemAlloc"); }
API int cuMemsetD8Async(std::uint64_t, unsigned char, std::size_t, void*) { return 0; }
API int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void** args, void**) {
  for (int n = 0; n < 16 && args[n] != nullptr; ++n) std::memcpy(&passed[n], args[n], 4);
  return ++launches, result("cuLaunchKernel");
}
API int cuGetErrorName(int, const char** to) { return *to = "CUDA_ERROR_OF_THE_FAKE", 0; }
