// Devices, contexts and names of errors of the libcuda replacement.
#include <cstdio>
#include <cstring>

#include "driver/driver.hpp"
#include "order.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

namespace {
int context = 0;  // the only context; its address is the handle
bool initialized = false;
}  // namespace

API int cuInit(unsigned) { return initialized = true, success; }
API int cuDriverGetVersion(int* version) { return *version = 13000, success; }
API int cuDeviceGetCount(int* count) { return *count = 1, success; }
API int cuDeviceGet(int* device, int ordinal) { return ordinal == 0 ? (*device = 0, success) : failed(invalid_device); }
API int cuDeviceGetName(char* name, int length, int) { return std::snprintf(name, static_cast<std::size_t>(length), "%s", device_name().c_str()), success; }
API int cuDeviceTotalMem(std::size_t* bytes, int) { return *bytes = fact("memory_bytes"), success; }
BOTH(cuDeviceTotalMem, (std::size_t* bytes, int device), (bytes, device))
API int cuDeviceComputeCapability(int* major, int* minor, int) { return *major = static_cast<int>(fact("major")), *minor = static_cast<int>(fact("minor")), success; }
API int cuDeviceGetUuid(char* uuid, int) { return std::memset(uuid, 0, 16), success; }
BOTH(cuDeviceGetUuid, (char* uuid, int device), (uuid, device))
API int cuDeviceGetAttribute(int* value, int attribute, int) {
  const auto n = [](const char* name) { return static_cast<int>(fact(name)); };
  switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;
    case 4: *value = 64; break;
    case 5: *value = 0x7fffffff; break;
    case 6: case 7: *value = 65535; break;
    case 8: *value = 48 * 1024; break;
    case 9: *value = 64 * 1024; break;
    case 10: *value = 32; break;
    case 12: case 82: *value = 65536; break;
    case 13: *value = n("clock_khz"); break;
    case 16: *value = n("sm_count"); break;
    case 19: case 31: case 41: case 83: case 95: *value = 1; break;
    case 38: *value = n("l2_bytes"); break;
    case 39: *value = n("max_threads_per_sm"); break;
    case 75: *value = n("major"); break;
    case 76: *value = n("minor"); break;
    case 81: *value = n("shared_per_sm"); break;
    case 97: *value = n("shared_per_block"); break;
    case 106: *value = n("max_blocks_per_sm"); break;
    case 111: *value = n("reserved_shared_per_block"); break;
    case 120: *value = n("major") >= 9; break;
    default: *value = 0;
  }
  return success;
}

// A private interface between NVIDIA's libraries. NVRTC requests it, but works without it.
API int cuGetExportTable(const void** table, const void*) { return *table = nullptr, not_found; }

API int cuDevicePrimaryCtxRetain(void** to, int) { return *to = &context, success; }
API int cuDevicePrimaryCtxRelease(int) { return success; }
BOTH(cuDevicePrimaryCtxRelease, (int device), (device))
API int cuDevicePrimaryCtxSetFlags(int, unsigned) { return success; }
BOTH(cuDevicePrimaryCtxSetFlags, (int device, unsigned flags), (device, flags))
API int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) { return *flags = 0, *active = 1, success; }
API int cuCtxCreate(void** to, unsigned, int) { return *to = &context, success; }
BOTH(cuCtxCreate, (void** to, unsigned flags, int device), (to, flags, device))
API int cuCtxCreate_v4(void** to, void*, unsigned, int) { return *to = &context, success; }
API int cuCtxDestroy(void*) { return reset_heap(), success; }
BOTH(cuCtxDestroy, (void* c), (c))
API int cuCtxSetCurrent(void*) { return success; }
API int cuCtxGetCurrent(void** to) { return *to = initialized ? &context : nullptr, success; }
API int cuCtxPushCurrent(void*) { return success; }
BOTH(cuCtxPushCurrent, (void* c), (c))
API int cuCtxPopCurrent(void** to) { return (to != nullptr ? *to = &context : nullptr), success; }
BOTH(cuCtxPopCurrent, (void** to), (to))
API int cuCtxGetDevice(int* device) { return *device = 0, success; }
API int cuCtxSynchronize() { return end_overlaps(), host_waits_for_device(), failed(sticky_error()); }
API int cuCtxSetLimit(int limit, std::size_t value) {
  constexpr int heap_size = 2;  // CU_LIMIT_MALLOC_HEAP_SIZE
  return limit == heap_size ? limit_heap(value) : success;
}
API int cuCtxSetCacheConfig(int) { return success; }

API int cuGetErrorName(int error, const char** name) {
  switch (error) {
#define NAMED(CODE, NAME, TEXT) \
  case CODE: return *name = NAME, success;
#include "errors.inc"
#undef NAMED
    default: return *name = nullptr, invalid_value;
  }
}
API int cuGetErrorString(int error, const char** text) {
  switch (error) {
#define NAMED(CODE, NAME, TEXT) \
  case CODE: return *text = TEXT, success;
#include "errors.inc"
#undef NAMED
    default: return *text = nullptr, invalid_value;
  }
}
