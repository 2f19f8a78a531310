// Devices, versions and errors of the libcudart replacement. VERSION is the major CUDA release that the library
// replaces, because structs differ between releases.
#include <cstdio>
#include <string>

#include <dlfcn.h>

#include "device_properties.hpp"
#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

int current_device = 0;
unsigned device_flags = 0;

int device_attribute(int attribute) {
  const auto n = [](const char* name) { return static_cast<int>(fact(name)); };
  switch (attribute) {
    case 1: return 1024;
    case 2: case 3: return 1024;
    case 4: return 64;
    case 5: return 0x7fffffff;
    case 6: case 7: return 65535;
    case 8: return 48 * 1024;
    case 9: return 64 * 1024;
    case 10: return 32;
    case 11: return 0x7fffffff;
    case 12: case 82: return 65536;
    case 13: return n("clock_khz");
    case 14: return 512;
    case 15: return 1;
    case 16: return n("sm_count");
    case 19: case 31: case 41: case 78: case 79: case 80: case 83: case 89: case 90: case 95: case 115: return 1;
    case 21: case 22: case 23: case 24: case 25: case 26: return 16384;
    case 30: case 51: return 32;
    case 36: return n("clock_khz");
    case 37: return 5120;
    case 38: return n("l2_bytes");
    case 39: return n("max_threads_per_sm");
    case 40: return 3;
    case 75: return n("major");
    case 76: return n("minor");
    case 81: return n("shared_per_sm");
    case 97: return n("shared_per_block");
    case 106: return n("max_blocks_per_sm");
    case 108: return persisting_l2_bytes();
    case 109: return policy_window_bytes();
    case 111: return n("reserved_shared_per_block");
    case 120: return n("major") >= 9;
    default: return 0;
  }
}

const char* error_name(int error) {
  switch (error) {
#define NAMED(CODE, NAME, TEXT) case CODE: return NAME;
#include "errors.inc"
#undef NAMED
    default: return "unrecognized error code";
  }
}
const char* error_text(int error) {
  switch (error) {
#define NAMED(CODE, NAME, TEXT) case CODE: return TEXT;
#include "errors.inc"
#undef NAMED
    default: return "unrecognized error code";
  }
}

}  // namespace

// Devices ------------------------------------------------------------------------------------------------------------

API int cudaGetDeviceCount(int* count) { return *count = 1, success; }
API int cudaGetDevice(int* device) { return *device = current_device, success; }
API int cudaSetDevice(int device) { return device == 0 ? success : failed(invalid_device); }
API int cudaInitDevice(int device, unsigned, unsigned) { return device == 0 ? success : failed(invalid_device); }
API int cudaSetValidDevices(int*, int) { return success; }
API int cudaChooseDevice(int* device, const void*) { return *device = 0, success; }
API int cudaSetDeviceFlags(unsigned flags) { return device_flags = flags, success; }
API int cudaGetDeviceFlags(unsigned* flags) { return *flags = device_flags, success; }
API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (device != 0) return failed(invalid_device);
  return *value = device_attribute(attribute), success;
}
namespace {
int properties(void* to, int device, DeviceProperties layout) {
  if (to == nullptr || device != 0) return failed(to == nullptr ? invalid_value : invalid_device);
  fill_properties(to, layout);
  return success;
}
}  // namespace
API int cudaGetDeviceProperties_v2(void* to, int device) { return properties(to, device, DeviceProperties::cuda12); }
API int cudaGetDeviceProperties(void* to, int device) {
  return properties(to, device, VERSION >= 13 ? DeviceProperties::cuda13 : DeviceProperties::cuda11);
}
API int cudaDeviceSynchronize() { return end_overlaps(), host_waits_for_device(), failed(sticky_error()); }
API int cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
API int cudaDeviceReset() { return host_waits_for_device(), reset_heap(), success; }
API int cudaThreadExit() { return success; }
namespace {
std::size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
constexpr int heap_size = 2;  // cudaLimitMallocHeapSize
int cache_config = 0, shared_config = 0;
}  // namespace
API int cudaDeviceSetLimit(int limit, std::size_t value) {
  if (limit < 0 || limit >= 16) return failed(invalid_value);
  if (limit == heap_size && limit_heap(value) != success) return invalid_value;
  return limits[limit] = value, success;
}
API int cudaDeviceGetLimit(std::size_t* value, int limit) {
  if (limit < 0 || limit >= 16) return failed(invalid_value);
  return *value = limits[limit], success;
}
API int cudaDeviceSetCacheConfig(int config) { return cache_config = config, success; }
API int cudaDeviceGetCacheConfig(int* config) { return *config = cache_config, success; }
API int cudaDeviceSetSharedMemConfig(int config) { return shared_config = config, success; }
API int cudaDeviceGetSharedMemConfig(int* config) { return *config = shared_config, success; }
API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return success;
}
API int cudaDeviceGetPCIBusId(char* id, int length, int) { return std::snprintf(id, static_cast<std::size_t>(length), "0000:00:00.0"), success; }
API int cudaDeviceGetByPCIBusId(int* device, const char*) { return *device = 0, success; }
API int cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, success; }
API int cudaDeviceEnablePeerAccess(int, unsigned) { return failed(217); }
API int cudaDeviceDisablePeerAccess(int) { return failed(217); }
API int cudaDeviceGetP2PAttribute(int* value, int, int, int) { return *value = 0, success; }
API int cudaDriverGetVersion(int* version) { return *version = VERSION * 1000, success; }
API int cudaRuntimeGetVersion(int* version) { return *version = VERSION * 1000, success; }
API int cudaProfilerStart() { return success; }
API int cudaProfilerStop() { return success; }
API int cudaCtxResetPersistingL2Cache() { return success; }

// Returns a driver function from the libcuda replacement next to this library. Ignores the flags, which select the
// legacy or the per-thread default stream.
API int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* status) {
  static void* const driver = [] {
    Dl_info here{};
    if (dladdr(reinterpret_cast<void*>(&cudaGetDriverEntryPoint), &here) == 0) return static_cast<void*>(nullptr);
    const std::string own = here.dli_fname;
    return dlopen((own.substr(0, own.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  *function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;  // cudaDriverEntryPointSymbolNotFound
  return *function == nullptr ? unsupported(name) : success;
}
API int cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPoint(name, function, flags, status);
}
API int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPoint(name, function, flags, status);
}
API int cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function, unsigned, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPoint(name, function, flags, status);
}

// Errors -------------------------------------------------------------------------------------------------------------

API int cudaGetLastError() {
  const int error = last_error;
  if (sticky_error() == success) last_error = success;
  return error;
}
API int cudaPeekAtLastError() { return last_error; }
API const char* cudaGetErrorName(int error) { return error_name(error); }
API const char* cudaGetErrorString(int error) { return error_text(error); }
