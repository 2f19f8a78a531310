// A fake CUDA driver, with a replacement for torch's function that returns the current stream. Launches are passed to a
// listener. A tensor map holds the address of its array and a digest of its other attributes.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace {
using Listener = int (*)(const void* config, void* function, void** parameters, void* context);
std::atomic<Listener> listener{nullptr};
std::atomic<void*> stream{nullptr};
std::atomic<bool> replaces{true};
thread_local void* contexts[8]; // stack of current contexts, empty at first
thread_local int depth = 0;

struct Map {
  void* address;
  std::uint64_t digest[15];
};

void mix(std::uint64_t& hash, std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3u; }
}  // namespace

// cuda.bindings looks up functions by calling this function, which returns the newest version of a function.
API int cuGetProcAddress_v2(const char* name, void** to, int, std::uint64_t, int* status) {
  static void* const self = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(cuGetProcAddress_v2), &info);
    return dlopen(info.dli_fname, RTLD_NOW);
  }();
  *to = nullptr;
  for (const char* suffix : {"_v3", "_v2", ""}) {
    *to = dlsym(self, (std::string(name) + suffix).c_str());
    if (*to != nullptr) break;
  }
  if (status != nullptr) *status = *to == nullptr;
  return *to == nullptr ? 500 : 0;
}

API void stand_in_listen(Listener to) { listener = to; }
API void stand_in_stream(void* current) { stream = current; }
API int stand_in_contexts() { return depth; }

API int cuLaunchKernelEx(const void* config, void* function, void** parameters, void**) {
  const Listener to = listener.load();
  return to == nullptr ? 0 : to(config, function, parameters, depth == 0 ? nullptr : contexts[depth - 1]);
}
API int cuInit(unsigned) { return 0; }
API int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
API int cuGetErrorName(int, const char** to) { return *to = "an error of the stand-in", 0; }
API int cuGetErrorString(int, const char** to) { return *to = "an error of the stand-in", 0; }
API int cuDeviceGetCount(int* count) { return *count = 2, 0; }
API int cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, size, "NVIDIA H200"), 0; }
API int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = 150'000'000'000, 0; }
API int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {  // CUdevice_attribute
    case 16: *value = 132; break;          // number of SMs
    case 38: *value = 60 << 20; break;     // bytes of L2
    case 75: *value = 9; break;            // major compute capability
    case 76: *value = 0; break;
    case 97: *value = 227 << 10; break;    // maximum shared memory of a block
    default: *value = 0;
  }
  return 0;
}
API int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
API int cuCtxSetCurrent(void* context) {
  if (depth != 0) --depth;
  if (context != nullptr) contexts[depth++] = context;
  return 0;
}
API int cuCtxGetDevice(int* device) {
  if (depth == 0) return 201;
  return *device = static_cast<int>(reinterpret_cast<std::uintptr_t>(contexts[depth - 1]) - 0x1000), 0;
}

// Handles: equal libraries (by their bytes) and equal functions (by library and name) get the same handle.
namespace {
std::mutex registry;
std::map<std::string, int> libraries, functions;
std::uintptr_t number(std::map<std::string, int>& names, const std::string& name, std::uintptr_t base) {
  const std::lock_guard lock(registry);
  return base + 64 * static_cast<std::uintptr_t>(names.emplace(name, static_cast<int>(names.size())).first->second);
}
std::map<std::uintptr_t, int> dynamic_shared;
}  // namespace
API int cuLibraryLoadData(void** to, const void* code, void*, void*, unsigned, void*, void*, unsigned) {
  return *to = reinterpret_cast<void*>(number(libraries, static_cast<const char*>(code), 0x6000'0000'0000)), 0;
}
API int cuLibraryLoadFromFile(void** to, const char* path, void*, void*, unsigned, void*, void*, unsigned) {
  return *to = reinterpret_cast<void*>(number(libraries, path, 0x6000'0000'0000)), 0;
}
API int cuLibraryUnload(void*) { return 0; }
API int cuLibraryGetKernel(void** to, void* library, const char* name) {
  const std::string key = std::to_string(reinterpret_cast<std::uintptr_t>(library)) + name;
  return *to = reinterpret_cast<void*>(number(functions, key, 0x7000'0000'0000)), 0;
}
API int cuKernelGetFunction(void** to, void* kernel) { return *to = kernel, 0; }
API int cuFuncGetAttribute(int* value, int attribute, void* function) {
  const std::lock_guard lock(registry);
  return *value = attribute == 8 ? dynamic_shared[reinterpret_cast<std::uintptr_t>(function)] : 0, 0;
}
API int cuFuncSetAttribute(void* function, int attribute, int value) {
  const std::lock_guard lock(registry);
  if (attribute == 8) dynamic_shared[reinterpret_cast<std::uintptr_t>(function)] = value;
  return 0;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) { return *blocks = 1, 0; }
API int cuOccupancyMaxActiveClusters(int* clusters, void*, const void*) { return *clusters = 6, 0; }

// Allocations return addresses that are never accessed.
namespace {
std::atomic<std::uintptr_t> free_memory{0x7F00'0000'0000};
int allocate(std::uintptr_t* to, std::size_t bytes) { return *to = free_memory.fetch_add((bytes + 511) / 512 * 512), 0; }
}  // namespace
API int cuMemAlloc_v2(std::uintptr_t* to, std::size_t bytes) { return allocate(to, bytes); }
API int cuMemAllocAsync(std::uintptr_t* to, std::size_t bytes, void*) { return allocate(to, bytes); }
API int cuMemAllocFromPoolAsync(std::uintptr_t* to, std::size_t bytes, void*, void*) { return allocate(to, bytes); }
API int cuMemFree_v2(std::uintptr_t) { return 0; }
API int cuMemFreeAsync(std::uintptr_t, void*) { return 0; }
API int cuMemsetD8Async(std::uintptr_t, unsigned char, std::size_t, void*) { return 0; }

API int cuCtxGetCurrent(void** to) { return *to = depth == 0 ? nullptr : contexts[depth - 1], 0; }
API int cuCtxPushCurrent_v2(void* context) { return contexts[depth++] = context, 0; }
API int cuCtxPopCurrent_v2(void** to) { return *to = contexts[--depth], 0; }
API int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
API int cuDevicePrimaryCtxRetain(void** to, int device) {
  return *to = reinterpret_cast<void*>(static_cast<std::uintptr_t>(0x1000 + device)), 0;
}
API int cuTensorMapReplaceAddress(Map* map, void* address) { return map->address = address, 0; }
API int cuTensorMapEncodeTiled(Map* map, int element, unsigned rank, void* address, const std::uint64_t* sizes,
                               const std::uint64_t* strides, const unsigned* box, const unsigned* element_strides, int interleave,
                               int swizzle, int promotion, int fill) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const int value : {element, static_cast<int>(rank), interleave, swizzle, promotion, fill}) mix(hash, static_cast<unsigned>(value));
  for (unsigned i = 0; i < rank; ++i) {
    mix(hash, sizes[i]);
    mix(hash, box[i]);
    mix(hash, element_strides[i]);
    if (i + 1 < rank) mix(hash, strides[i]);
  }
  map->address = address;
  for (unsigned i = 0; i < 15; ++i) mix(hash, i), map->digest[i] = hash;
  return 0;
}
API std::int32_t aoti_torch_get_current_cuda_stream(std::int32_t, void** to) { return *to = stream.load(), 0; }
