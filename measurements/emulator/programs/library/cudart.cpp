// The stand-in of libcudart: CUDA Runtime API, in the order of its chapters. VERSION is the major release whose library it
// stands in for: structs differ between them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include <dlfcn.h>

#include "device_properties.hpp"
#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct FatBinary {  // fatbinary_section.h
  int magic, version;
  const void* data;
  const void** prelinked;  // version 2: the containers of files that were compiled apart, up to a null pointer
};
constexpr int fat_magic = 0x466243b1, linked_version = 2;

std::size_t fat_bytes(const void* data) {  // of one container, as its header says
  struct Header {
    std::uint32_t magic;
    std::uint16_t version, header;
    std::uint64_t size;
  } h;
  std::memcpy(&h, data, sizeof h);
  return h.magic == 0xba55ed50u ? h.header + h.size : 0;
}

std::unordered_map<const void*, Kernel*> kernels;      // by the host's function, and by themselves
std::unordered_map<const void*, Variable*> variables;  // by the host's variable
std::recursive_mutex registry;

Variable* variable_of(const void* symbol) {
  const auto found = variables.find(symbol);
  if (found == variables.end()) return nullptr;
  load(found->second->module);
  return found->second;
}

struct Configuration {
  Dim3 grid, block;
  std::size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

struct Stream {
  unsigned flags = 0;
  int priority = 0;
};
struct Event {
  double at = 0;
  bool recorded = false;
};
int current_device = 0;
unsigned device_flags = 0;

int launch(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream, bool cooperative, Dim3 cluster = {}) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  const Launch one{k, grid, block, cluster, shared, arguments, cooperative};
  if (!captured(stream)) return run(one);
  if (const int error = learn(k); error != success) return failed(error);
  return keep(stream, Work::kernel, kept_launch(one));
}

struct Channel {
  int x, y, z, w, kind;
};
int give(void** to, std::size_t bytes, Allocation::Kind kind, const char* function) {
  if (to == nullptr) return failed(invalid_value);
  if (bytes == 0) {
    *to = nullptr;
    return success;
  }
  void* p = allocate(bytes, kind, function);
  if (p == nullptr) return failed(out_of_memory);
  *to = p;
  return success;
}

int new_array(Array** to, const Channel* c, std::size_t width, std::size_t height, std::size_t depth, unsigned flags, const char* function) {
  if (to == nullptr || c == nullptr || width == 0) return failed(invalid_value);
  const auto bits = [](int n) { return static_cast<unsigned>(n); };
  auto* a = new Array{0, {bits(c->x), bits(c->y), bits(c->z), bits(c->w)}, c->kind, width, height, depth, (flags & 1u) != 0};
  void* p = allocate(a->pitch() * a->rows() * a->planes(), Allocation::Kind::array, function);
  if (p == nullptr) {
    delete a;
    return failed(out_of_memory);
  }
  a->address = reinterpret_cast<std::uint64_t>(p);
  *to = a;
  return success;
}
char* in_array(const Array* a, std::size_t x, std::size_t y, std::size_t z = 0) {
  return reinterpret_cast<char*>(a->address) + (z * a->rows() + y) * a->pitch() + x;
}

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

namespace autosched::program::runtime {

Kernel* kernel_of(const void* function) {
  const auto found = kernels.find(function);
  return found == kernels.end() ? nullptr : found->second;
}

const void* function_of(const Kernel* kernel) {
  for (const auto& [function, k] : kernels) {
    if (k == kernel && function != kernel) return function;
  }
  return kernel;
}

int copy_3d(const Copy3D* p, const char* function) {
  if (p == nullptr) return failed(invalid_value);
  const Array* array = p->source_array != nullptr ? p->source_array : p->target_array;
  const std::size_t texel = array != nullptr ? array->texel() : 1;  // with arrays, widths and places count elements
  const std::size_t width = p->extent.width * texel;
  for (std::size_t z = 0; z < p->extent.depth; ++z) {
    for (std::size_t y = 0; y < p->extent.height; ++y) {
      const auto place = [&](Array* a, const Position& at, const Pitched& pointer) -> char* {
        if (a != nullptr) return in_array(a, at.x * a->texel(), at.y + y, at.z + z);
        return static_cast<char*>(pointer.pointer) + ((at.z + z) * pointer.ysize + at.y + y) * pointer.pitch + at.x;
      };
      const int error = copy(place(p->target_array, p->target_at, p->target), place(p->source_array, p->source_at, p->source), width,
                             p->kind, function);
      if (error != success) return error;
    }
  }
  return success;
}

int fill_rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, const char* function) {
  for (std::size_t row = 0; row < height; ++row) {
    if (const int error = fill(static_cast<char*>(to) + row * pitch, value, width, function); error != success) return error;
  }
  return success;
}

}  // namespace autosched::program::runtime

// Registration, which nvcc's host code calls (crt/host_runtime.h) ----------------------------------------------------

API void** __cudaRegisterFatBinary(void* wrapper) {
  const std::lock_guard lock(registry);
  FatBinary fat;
  std::memcpy(&fat, wrapper, sizeof fat);
  if (fat.magic != fat_magic) return reinterpret_cast<void**>(add_module("", 0));
  if (fat.version != linked_version) return reinterpret_cast<void**>(add_module(fat.data, fat_bytes(fat.data)));
  auto* image = new std::string;  // as long as the module
  for (const void** each = fat.prelinked; *each != nullptr; ++each) {
    image->append(static_cast<const char*>(*each), fat_bytes(*each));
    image->append(-image->size() % 8, '\0');
  }
  return reinterpret_cast<void**>(add_module(image->data(), image->size()));
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard lock(registry);
  Kernel* k = add_kernel(reinterpret_cast<Module*>(module), name);
  kernels[host] = k;
  kernels[k] = k;
}
API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, std::size_t size, int constant, int) {
  const std::lock_guard lock(registry);
  variables[host] = add_variable(reinterpret_cast<Module*>(module), name, size, constant != 0, false);
}
API void __cudaRegisterManagedVar(void** module, void** host, char*, const char* name, int, std::size_t size, int constant, int) {
  const std::lock_guard lock(registry);
  Variable* v = add_variable(reinterpret_cast<Module*>(module), name, size, constant != 0, true);
  *host = reinterpret_cast<void*>(v->address);
  variables[host] = v;
}
API char __cudaInitModule(void** module) { return load(reinterpret_cast<Module*>(module)) == success; }
API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) { lacking("texture references"); }
API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) { lacking("surface references"); }

// A function of the driver, from the library that stands in for it and lies beside this one. flags: of default streams.
API int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* status) {
  static void* const driver = [] {
    Dl_info here{};
    if (dladdr(reinterpret_cast<void*>(&cudaGetDriverEntryPoint), &here) == 0) return static_cast<void*>(nullptr);
    const std::string own = here.dli_fname;
    return dlopen((own.substr(0, own.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  *function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (status != nullptr) *status = *function == nullptr ? 1 : 0;  // cudaDriverEntryPointSymbolNotFound
  return *function == nullptr ? lacking(name) : success;
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
API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
API int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return failed(52);
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared;
  std::memcpy(stream, &c.stream, sizeof c.stream);
  return success;
}
API int __cudaGetKernel(void** to, const void* function) {
  *to = kernel_of(function);
  return *to != nullptr ? success : failed(invalid_device_function);
}
API int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  return launch(kernel, grid, block, arguments, shared, stream, false);
}
API int __cudaLaunchKernel_ptsz(void* kernel, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  return launch(kernel, grid, block, arguments, shared, stream, false);
}

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
API int cudaDeviceSynchronize() { return failed(sticky_error()); }
API int cudaThreadSynchronize() { return failed(sticky_error()); }
API int cudaDeviceReset() { return reset_heap(), success; }
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

// Errors -------------------------------------------------------------------------------------------------------------

API int cudaGetLastError() {
  const int error = last_error;
  if (sticky_error() == success) last_error = success;
  return error;
}
API int cudaPeekAtLastError() { return last_error; }
API const char* cudaGetErrorName(int error) { return error_name(error); }
API const char* cudaGetErrorString(int error) { return error_text(error); }

// Streams and events -------------------------------------------------------------------------------------------------

API int cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) { return *stream = new Stream{flags, priority}, success; }
API int cudaStreamCreateWithFlags(void** stream, unsigned flags) { return *stream = new Stream{flags, 0}, success; }
API int cudaStreamCreate(void** stream) { return *stream = new Stream, success; }
API int cudaStreamDestroy(void* stream) { return delete static_cast<Stream*>(stream), success; }
API int cudaStreamSynchronize(void*) { return failed(sticky_error()); }
API int cudaStreamQuery(void*) { return failed(sticky_error()); }
API int cudaStreamWaitEvent(void* stream, void* event, unsigned) { return wait_in_capture(stream, event), success; }
API int cudaStreamGetPriority(void* stream, int* priority) { return *priority = stream != nullptr ? static_cast<Stream*>(stream)->priority : 0, success; }
API int cudaStreamGetFlags(void* stream, unsigned* flags) { return *flags = stream != nullptr ? static_cast<Stream*>(stream)->flags : 0, success; }
API int cudaStreamGetDevice(void*, int* device) { return *device = 0, success; }
API int cudaStreamAttachMemAsync(void*, void*, std::size_t, unsigned) { return success; }
API int cudaStreamSetAttribute(void*, int, const void*) { return success; }
API int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* data, unsigned) { return call(stream, sticky_error(), data), success; }
API int cudaLaunchHostFunc(void* stream, void (*call)(void*), void* data) {
  return enqueue(stream, Work::host, [=] { return call(data), int{success}; });
}
API int cudaEventCreate(void** event) { return *event = new Event, success; }
API int cudaEventCreateWithFlags(void** event, unsigned) { return *event = new Event, success; }
API int cudaEventDestroy(void* event) { return delete static_cast<Event*>(event), success; }
API int cudaEventRecord(void* event, void* stream) {
  if (event == nullptr) return failed(invalid_handle);
  record_in_capture(event, stream);
  *static_cast<Event*>(event) = {now_milliseconds(), true};
  return failed(sticky_error());
}
API int cudaEventRecordWithFlags(void* event, void* stream, unsigned) { return cudaEventRecord(event, stream); }
API int cudaEventSynchronize(void* event) { return event != nullptr ? failed(sticky_error()) : failed(invalid_handle); }
API int cudaEventQuery(void* event) { return event != nullptr ? failed(sticky_error()) : failed(invalid_handle); }
API int cudaEventElapsedTime(float* milliseconds, void* from, void* to) {
  if (from == nullptr || to == nullptr) return failed(invalid_handle);
  const auto *a = static_cast<Event*>(from), *b = static_cast<Event*>(to);
  if (!a->recorded || !b->recorded) return failed(invalid_handle);
  return *milliseconds = static_cast<float>(b->at - a->at), success;
}
API int cudaEventElapsedTime_v2(float* milliseconds, void* from, void* to) { return cudaEventElapsedTime(milliseconds, from, to); }

// Launches -----------------------------------------------------------------------------------------------------------

API int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  return launch(function, grid, block, arguments, shared, stream, false);
}
API int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  const std::uint64_t fit = static_cast<std::uint64_t>(blocks_per_multiprocessor(k, static_cast<int>(block.x * block.y * block.z), shared)) * fact("sm_count");
  if (std::uint64_t{grid.x} * grid.y * grid.z > fit) {
    complain_misuse("the cooperative launch of " + k->name + " has more blocks than the device holds at a time, " + std::to_string(fit));
    return failed(cooperative_too_large);
  }
  return launch(function, grid, block, arguments, shared, stream, true);
}
namespace {
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int number;
    struct {
      unsigned x, y, z;
    } cluster;
  };
};
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
}  // namespace
API int cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  Dim3 cluster;
  bool cooperative = false;
  for (unsigned k = 0; k < config->count; ++k) {
    const LaunchAttribute& a = config->attributes[k];
    if (a.id == 4) cluster = {a.cluster.x, a.cluster.y, a.cluster.z};
    if (a.id == 2) cooperative = a.number != 0;
  }
  return launch(function, config->grid, config->block, arguments, config->shared, config->stream, cooperative, cluster);
}
API int cudaGetFuncBySymbol(void** to, const void* function) { return __cudaGetKernel(to, function); }
API int cudaGetKernel(void** to, const void* function) { return __cudaGetKernel(to, function); }
API int cudaFuncGetName(const char** name, const void* function) {
  const Kernel* k = kernel_of(function);
  return k == nullptr ? failed(invalid_device_function) : (*name = k->name.c_str(), success);
}
namespace {
struct FunctionAttributes {
  std::size_t shared, constant, local;
  int most_threads, registers, ptx, binary, cache, most_dynamic, carveout;
};
}  // namespace
API int cudaFuncGetAttributes(FunctionAttributes* to, const void* function) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  if (const int error = learn(k); error != success) return failed(error);
  const int architecture = static_cast<int>(10 * fact("major") + fact("minor"));
  *to = {k->static_shared, 0, k->local, static_cast<int>(k->most_threads), 32, k->compiled_for, architecture, 0, static_cast<int>(k->most_dynamic), -1};
  return success;
}
API int cudaFuncSetAttribute(const void* function, int attribute, int value) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  if (const int error = learn(k); error != success) return failed(error);
  if (attribute == 8) {
    if (value < 0 || static_cast<unsigned>(value) + k->static_shared > fact("shared_per_block")) {
      complain_misuse("cudaFuncSetAttribute: " + k->name + " may have at most " +
                      std::to_string(fact("shared_per_block") - k->static_shared) + " bytes of dynamic shared memory, not " + std::to_string(value));
      return failed(invalid_value);
    }
    k->most_dynamic = static_cast<unsigned>(value);
  }
  return success;
}
API int cudaFuncSetCacheConfig(const void*, int) { return success; }
API int cudaFuncSetSharedMemConfig(const void*, int) { return success; }
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, std::size_t shared) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  *blocks = blocks_per_multiprocessor(k, threads, shared);
  return failed(k->error);
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, std::size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
API int cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* function, int blocks, int) {
  Kernel* k = kernel_of(function);
  if (k == nullptr || blocks < 1 || learn(k) != success) return failed(k == nullptr ? invalid_device_function : invalid_value);
  const std::size_t each = fact("shared_per_sm") / static_cast<unsigned>(blocks), own = k->static_shared + fact("reserved_shared_per_block");
  return *bytes = each > own ? std::min<std::size_t>(each - own, fact("shared_per_block") - k->static_shared) : 0, success;
}
API int cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const LaunchConfig* config) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  unsigned size = 1;
  for (unsigned a = 0; a < config->count; ++a) {
    if (config->attributes[a].id == 4) size = config->attributes[a].cluster.x * config->attributes[a].cluster.y * config->attributes[a].cluster.z;
  }
  const Dim3& b = config->block;
  *clusters = blocks_per_multiprocessor(k, static_cast<int>(b.x * b.y * b.z), config->shared) * static_cast<int>(fact("sm_count")) / static_cast<int>(std::max(size, 1u));
  return success;
}

// Memory -------------------------------------------------------------------------------------------------------------

API int cudaMalloc(void** to, std::size_t bytes) { return give(to, bytes, Allocation::Kind::device, "cudaMalloc"); }
API int cudaMallocAsync(void** to, std::size_t bytes, void*) { return give(to, bytes, Allocation::Kind::device, "cudaMallocAsync"); }
API int cudaMallocFromPoolAsync(void** to, std::size_t bytes, void*, void*) { return give(to, bytes, Allocation::Kind::device, "cudaMallocFromPoolAsync"); }
API int cudaMallocManaged(void** to, std::size_t bytes, unsigned) { return give(to, bytes, Allocation::Kind::managed, "cudaMallocManaged"); }
API int cudaMallocHost(void** to, std::size_t bytes) { return give(to, bytes, Allocation::Kind::host, "cudaMallocHost"); }
API int cudaHostAlloc(void** to, std::size_t bytes, unsigned) { return give(to, bytes, Allocation::Kind::host, "cudaHostAlloc"); }
API int cudaFree(void* p) { return release(p, "cudaFree"); }
// Memory that a capture allots stays: the graph may run again.
API int cudaFreeAsync(void* p, void* stream) { return captured(stream) ? success : release(p, "cudaFreeAsync"); }
API int cudaFreeHost(void* p) { return release(p, "cudaFreeHost"); }
API int cudaHostRegister(void*, std::size_t, unsigned) { return success; }
API int cudaHostUnregister(void*) { return success; }
API int cudaHostGetDevicePointer(void** to, void* host, unsigned) {
  if (allocation_of(host) == nullptr) return lacking("cudaHostGetDevicePointer of registered memory");
  return *to = host, success;
}
API int cudaHostGetFlags(unsigned* flags, void*) { return *flags = 0, success; }
API int cudaMallocPitch(void** to, std::size_t* pitch, std::size_t width, std::size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return give(to, *pitch * height, Allocation::Kind::device, "cudaMallocPitch");
}
API int cudaMalloc3D(Pitched* to, Extent extent) {
  to->pitch = (extent.width + 511) / 512 * 512;
  to->xsize = extent.width, to->ysize = extent.height;
  return give(&to->pointer, to->pitch * extent.height * extent.depth, Allocation::Kind::device, "cudaMalloc3D");
}
API int cudaMemGetInfo(std::size_t* free, std::size_t* total) { return *free = free_bytes(), *total = fact("memory_bytes"), success; }
namespace {
struct PointerAttributes {
  int type, device;
  void *on_device, *on_host;
};
}  // namespace
API int cudaPointerGetAttributes(PointerAttributes* to, const void* pointer) {
  const Allocation* a = allocation_of(pointer);
  void* p = const_cast<void*>(pointer);
  if (a == nullptr) return *to = {0, 0, nullptr, nullptr}, success;
  const bool host = a->kind == Allocation::Kind::host, managed = a->kind == Allocation::Kind::managed;
  *to = {host ? 1 : managed ? 3 : 2, 0, p, host || managed ? p : nullptr};
  return success;
}
API int cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) { return copy(to, from, bytes, kind, "cudaMemcpy"); }
API int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return copy(to, from, bytes, kind, "cudaMemcpyAsync"); });
}
API int cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) { return copy(to, from, bytes, 3, "cudaMemcpyPeer"); }
API int cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, void* stream) {
  return enqueue(stream, Work::copy, [=] { return copy(to, from, bytes, 3, "cudaMemcpyPeerAsync"); });
}
API int cudaMemcpy2D(void* to, std::size_t tp, const void* from, std::size_t fp, std::size_t width, std::size_t height, int kind) {
  return copy_rows(to, tp, from, fp, width, height, kind, "cudaMemcpy2D");
}
API int cudaMemcpy2DAsync(void* to, std::size_t tp, const void* from, std::size_t fp, std::size_t width, std::size_t height, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return copy_rows(to, tp, from, fp, width, height, kind, "cudaMemcpy2DAsync"); });
}
API int cudaMemcpy3D(const Copy3D* p) { return copy_3d(p, "cudaMemcpy3D"); }
API int cudaMemcpy3DAsync(const Copy3D* p, void* stream) {
  if (p == nullptr) return failed(invalid_value);
  return enqueue(stream, Work::copy, [own = *p] { return copy_3d(&own, "cudaMemcpy3DAsync"); });
}
API int cudaMemset(void* to, int value, std::size_t bytes) { return fill(to, value, bytes, "cudaMemset"); }
API int cudaMemsetAsync(void* to, int value, std::size_t bytes, void* stream) {
  return enqueue(stream, Work::fill, [=] { return fill(to, value, bytes, "cudaMemsetAsync"); });
}
API int cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return fill_rows(to, pitch, value, width, height, "cudaMemset2D");
}
API int cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, void* stream) {
  return enqueue(stream, Work::fill, [=] { return fill_rows(to, pitch, value, width, height, "cudaMemset2DAsync"); });
}
API int cudaMemset3D(Pitched to, int value, Extent extent) {
  for (std::size_t z = 0; z < extent.depth; ++z) {
    const int error = cudaMemset2D(static_cast<char*>(to.pointer) + z * to.ysize * to.pitch, to.pitch, value, extent.width, extent.height);
    if (error != success) return error;
  }
  return success;
}
API int cudaMemset3DAsync(Pitched to, int value, Extent extent, void*) { return cudaMemset3D(to, value, extent); }
// Where memory lies makes no difference; the structs of CUDA 13 and the numbers of CUDA 12 are not looked at.
API int cudaMemPrefetchAsync(const void*, std::size_t, std::uint64_t, unsigned long, void*) { return success; }
API int cudaMemPrefetchAsync_v2(const void*, std::size_t, std::uint64_t, unsigned, void*) { return success; }
API int cudaMemAdvise(const void*, std::size_t, int, std::uint64_t) { return success; }
API int cudaMemAdvise_v2(const void*, std::size_t, int, std::uint64_t) { return success; }

// Pools of memory: all of it comes from one place, and is given back at once.
namespace {
struct Pool {
  std::uint64_t threshold = 0;  // of bytes that a GPU would keep
  int reuse[3] = {1, 1, 1};
};
Pool default_pool;
Pool* pool_of_device = &default_pool;
}  // namespace
API int cudaDeviceGetDefaultMemPool(Pool** pool, int) { return *pool = &default_pool, success; }
API int cudaDeviceGetMemPool(Pool** pool, int) { return *pool = pool_of_device, success; }
API int cudaDeviceSetMemPool(int, Pool* pool) { return pool_of_device = pool, success; }
API int cudaMemPoolCreate(Pool** pool, const void*) { return *pool = new Pool, success; }
API int cudaMemPoolDestroy(Pool* pool) {
  if (pool == nullptr || pool == &default_pool) return failed(invalid_value);
  if (pool_of_device == pool) pool_of_device = &default_pool;
  return delete pool, success;
}
API int cudaMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  if (pool == nullptr || value == nullptr) return failed(invalid_value);
  if (attribute >= 1 && attribute <= 3) pool->reuse[attribute - 1] = *static_cast<int*>(value);
  if (attribute == 4) pool->threshold = *static_cast<std::uint64_t*>(value);
  return success;
}
API int cudaMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  if (pool == nullptr || value == nullptr) return failed(invalid_value);
  if (attribute >= 1 && attribute <= 3) return *static_cast<int*>(value) = pool->reuse[attribute - 1], success;
  if (attribute == 4) return *static_cast<std::uint64_t*>(value) = pool->threshold, success;
  if (attribute > 8) return failed(invalid_value);
  // What is reserved and used, now and at most.
  return *static_cast<std::uint64_t*>(value) = fact("memory_bytes") - free_bytes(), success;
}
API int cudaMemPoolSetAccess(Pool*, const void*, std::size_t) { return success; }
API int cudaMemPoolTrimTo(Pool*, std::size_t) { return success; }

// Symbols ------------------------------------------------------------------------------------------------------------

namespace {
int copy_symbol(const void* symbol, void* host, std::size_t bytes, std::size_t offset, int kind, bool to_symbol, const char* function) {
  Variable* v = variable_of(symbol);
  if (v == nullptr) return failed(invalid_symbol);
  if (offset + bytes > v->bytes) {
    complain_misuse(std::string(function) + " of " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + " of " + v->name +
                    ", which has " + std::to_string(v->bytes));
    return failed(invalid_value);
  }
  char* there = reinterpret_cast<char*>(v->address) + offset;
  if (to_symbol) v->unset = false;
  return to_symbol ? copy(there, host, bytes, kind, function) : copy(host, there, bytes, kind, function);
}
}  // namespace
API int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset, int kind) {
  return copy_symbol(symbol, const_cast<void*>(from), bytes, offset, kind, true, "cudaMemcpyToSymbol");
}
API int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return copy_symbol(symbol, const_cast<void*>(from), bytes, offset, kind, true, "cudaMemcpyToSymbolAsync"); });
}
API int cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset, int kind) {
  return copy_symbol(symbol, to, bytes, offset, kind, false, "cudaMemcpyFromSymbol");
}
API int cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset, int kind, void* stream) {
  return enqueue(stream, Work::copy, [=] { return copy_symbol(symbol, to, bytes, offset, kind, false, "cudaMemcpyFromSymbolAsync"); });
}
API int cudaGetSymbolAddress(void** to, const void* symbol) {
  Variable* v = variable_of(symbol);
  if (v == nullptr) return failed(invalid_symbol);
  v->unset = false;  // whoever has the address may set it
  return *to = reinterpret_cast<void*>(v->address), success;
}
API int cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const Variable* v = variable_of(symbol);
  return v == nullptr ? failed(invalid_symbol) : (*bytes = v->bytes, success);
}

// Arrays, textures and surfaces --------------------------------------------------------------------------------------

API int cudaMallocArray(Array** to, const Channel* channel, std::size_t width, std::size_t height, unsigned flags) {
  return new_array(to, channel, width, height, 0, flags, "cudaMallocArray");
}
API int cudaMalloc3DArray(Array** to, const Channel* channel, Extent e, unsigned flags) {
  return new_array(to, channel, e.width, e.height, e.depth, flags, "cudaMalloc3DArray");
}
API int cudaFreeArray(Array* array) {
  if (array == nullptr) return success;
  const int error = release(reinterpret_cast<void*>(array->address), "cudaFreeArray");
  delete array;
  return error;
}
API int cudaArrayGetInfo(Channel* channel, Extent* extent, unsigned* flags, const Array* a) {
  const auto bits = [&](int k) { return static_cast<int>(a->bits[k]); };
  if (channel != nullptr) *channel = {bits(0), bits(1), bits(2), bits(3), a->kind};
  if (extent != nullptr) *extent = {a->width, a->height, a->depth};
  if (flags != nullptr) *flags = a->layered;
  return success;
}
API int cudaGetChannelDesc(Channel* channel, const Array* a) { return cudaArrayGetInfo(channel, nullptr, nullptr, a); }
API Channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
API int cudaMemcpy2DToArray(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind) {
  return copy_rows(in_array(to, x, y), to->pitch(), from, pitch, width, height, kind, "cudaMemcpy2DToArray");
}
API int cudaMemcpy2DToArrayAsync(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height, int kind, void*) {
  return cudaMemcpy2DToArray(to, x, y, from, pitch, width, height, kind);
}
API int cudaMemcpy2DFromArray(void* to, std::size_t pitch, const Array* from, std::size_t x, std::size_t y, std::size_t width, std::size_t height, int kind) {
  return copy_rows(to, pitch, in_array(from, x, y), from->pitch(), width, height, kind, "cudaMemcpy2DFromArray");
}
API int cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, const Array* from, std::size_t x, std::size_t y, std::size_t width, std::size_t height, int kind, void*) {
  return cudaMemcpy2DFromArray(to, pitch, from, x, y, width, height, kind);
}
API int cudaMemcpyToArray(Array* to, std::size_t x, std::size_t y, const void* from, std::size_t bytes, int kind) {
  return copy(in_array(to, x, y), from, bytes, kind, "cudaMemcpyToArray");
}
API int cudaMemcpyFromArray(void* to, const Array* from, std::size_t x, std::size_t y, std::size_t bytes, int kind) {
  return copy(to, in_array(from, x, y), bytes, kind, "cudaMemcpyFromArray");
}
namespace {
struct Resource {
  int type;  // 0: array, 2: linear, 3: pitched
  union {
    struct {
      Array* array;
    } array;
    struct {
      void* pointer;
      Channel channel;
      std::size_t bytes;
    } linear;
    struct {
      void* pointer;
      Channel channel;
      std::size_t width, height, pitch;
    } pitched;
  };
};
struct TextureDescription {
  int modes[3], filter, read;
  int srgb;
  float border[4];
  int normalized_coordinates;
};
void set_channel(TextureView& view, const Channel& c) {
  const int bits[] = {c.x, c.y, c.z, c.w};
  for (int k = 0; k < 4; ++k) view.bits[k] = static_cast<unsigned>(bits[k]);
  view.kind = c.kind;
}
int view_of(const Resource* r, TextureView& view) {
  view = TextureView{};
  view.extent[0] = view.extent[1] = view.extent[2] = 1;
  if (r->type == 0) {
    const Array* a = r->array.array;
    view.address = a->address;
    for (int k = 0; k < 4; ++k) view.bits[k] = a->bits[k];
    view.kind = a->kind;
    view.layered = a->layered;
    view.dimensions = a->depth != 0 && !a->layered ? 3 : a->height != 0 ? 2 : 1;
    view.extent[0] = a->width, view.extent[1] = a->rows(), view.extent[2] = a->planes();
    view.pitch = a->pitch(), view.slice = a->pitch() * a->rows();
  } else if (r->type == 2) {
    view.address = reinterpret_cast<std::uint64_t>(r->linear.pointer);
    set_channel(view, r->linear.channel);
    view.dimensions = 1;
    const unsigned texel = (view.bits[0] + view.bits[1] + view.bits[2] + view.bits[3]) / 8;
    if (texel == 0) return failed(20);
    view.extent[0] = r->linear.bytes / texel;
    view.pitch = view.slice = r->linear.bytes;
  } else if (r->type == 3) {
    view.address = reinterpret_cast<std::uint64_t>(r->pitched.pointer);
    set_channel(view, r->pitched.channel);
    view.dimensions = 2;
    view.extent[0] = r->pitched.width, view.extent[1] = r->pitched.height;
    view.pitch = r->pitched.pitch, view.slice = r->pitched.pitch * r->pitched.height;
  } else {
    return lacking("mipmapped arrays");
  }
  return success;
}
}  // namespace
API int cudaCreateTextureObject(std::uint64_t* to, const Resource* resource, const TextureDescription* t, const void*) {
  TextureView view;
  if (const int error = view_of(resource, view); error != success) return error;
  view.linear = t->filter == 1;
  view.normalized_read = t->read == 1;
  view.normalized_coordinates = t->normalized_coordinates != 0;
  for (int d = 0; d < 3; ++d) view.modes[d] = resource->type == 2 ? 3 : t->modes[d];  // linear memory is zero outside
  std::copy(t->border, t->border + 4, view.border);
  return *to = add_texture(view), success;
}
API int cudaDestroyTextureObject(std::uint64_t handle) { return remove_texture(handle), success; }
API int cudaCreateSurfaceObject(std::uint64_t* to, const Resource* resource) {
  TextureView view;
  if (const int error = view_of(resource, view); error != success) return error;
  return *to = add_texture(view), success;
}
API int cudaDestroySurfaceObject(std::uint64_t handle) { return remove_texture(handle), success; }
