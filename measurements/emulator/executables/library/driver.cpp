// Replacement of libcuda: the part of the CUDA Driver API for programs that load modules themselves. Device pointers
// are 64-bit numbers, and handles are pointers to the types of core.hpp.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "guards.hpp"
#include "order.hpp"
#include "work.hpp"
#include "isa/async/tensor_map.hpp"

using namespace autosched::program;

#define API extern "C" __attribute__((visibility("default")))
// Releases of the interface end in _v2 and so on; programs are compiled to call one of them.
#define BOTH(NAME, PARAMETERS, ARGUMENTS) \
  API int NAME##_v2 PARAMETERS { return NAME ARGUMENTS; }

namespace {

using DevicePointer = std::uint64_t;
void* pointer(DevicePointer p) { return reinterpret_cast<void*>(p); }

int context = 0;  // the only context; its address is its handle
bool initialized = false;

std::size_t image_bytes(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == 0xba55ed50u) {
    std::uint16_t header = 0;
    std::uint64_t size = 0;
    std::memcpy(&header, static_cast<const char*>(image) + 6, sizeof header);
    std::memcpy(&size, static_cast<const char*>(image) + 8, sizeof size);
    return header + size;
  }
  return std::strlen(static_cast<const char*>(image));
}

int give(DevicePointer* to, std::size_t bytes, Allocation::Kind kind, const char* function) {
  if (to == nullptr || bytes == 0) return failed(invalid_value);
  void* p = allocate(bytes, kind, function);
  if (p == nullptr) return failed(out_of_memory);
  return *to = reinterpret_cast<DevicePointer>(p), success;
}

// Executes work of a stream.
template <class Do>
int on(void* stream, const char* function, Do work) {
  const Operation operation(stream, function);
  return work();
}

template <class T>
int fill_with(DevicePointer to, T value, std::size_t count, const char* function) {
  const Operation operation(function);
  if (const int error = fill(pointer(to), 0, count * sizeof(T), function); error != success) return error;
  std::fill_n(static_cast<T*>(pointer(to)), count, value);
  return success;
}

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

// Private interface between NVIDIA's libraries: NVRTC requests it, and works without it.
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

API int cuModuleLoadData(void** to, const void* image) {
  if (std::memcmp(image, "\x7f" "ELF", 4) == 0) {  // a cubin: programs that also have PTX then load the PTX
    complain_machine_code();
    return failed(no_kernel_image);
  }
  Module* m = add_module(image, image_bytes(image));
  m->adopts = true;
  if (const int error = load(m); error != success) return failed(error);
  return *to = m, success;
}
API int cuModuleLoadDataEx(void** to, const void* image, unsigned, int*, void**) { return cuModuleLoadData(to, image); }
API int cuModuleLoadFatBinary(void** to, const void* image) { return cuModuleLoadData(to, image); }
API int cuModuleLoad(void** to, const char* name) {
  std::FILE* file = std::fopen(name, "rb");
  if (file == nullptr) return failed(301);
  auto* image = new std::string;  // the module keeps it
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) != 0;) image->append(buffer, n);
  std::fclose(file);
  return cuModuleLoadData(to, image->c_str());
}
API int cuModuleUnload(void*) { return success; }
API int cuModuleGetFunction(void** to, void* module, const char* name) {
  Kernel* k = add_kernel(static_cast<Module*>(module), name);
  if (const int error = learn(k); error != success) {
    delete k;
    return failed(error == invalid_device_function ? not_found : error);
  }
  return *to = k, success;
}
API int cuModuleGetGlobal(DevicePointer* to, std::size_t* bytes, void* module, const char* name) {
  for (const Variable* v : static_cast<Module*>(module)->variables) {
    if (v->name != name) continue;
    if (to != nullptr) *to = v->address;
    if (bytes != nullptr) *bytes = v->bytes;
    return success;
  }
  return failed(not_found);
}
BOTH(cuModuleGetGlobal, (DevicePointer * to, std::size_t* bytes, void* module, const char* name), (to, bytes, module, name))

API int cuFuncGetAttribute(int* value, int attribute, void* function) {
  const auto* k = static_cast<Kernel*>(function);
  *value = static_cast<int>(attribute == 0   ? k->most_threads
                            : attribute == 1 ? k->static_shared
                            : attribute == 4 ? 32u
                            : attribute == 8 ? k->most_dynamic
                                             : 0u);
  return success;
}
API int cuFuncSetAttribute(void* function, int attribute, int value) {
  auto* k = static_cast<Kernel*>(function);
  if (attribute != 8) return success;
  if (value < 0 || static_cast<unsigned>(value) + k->static_shared > fact("shared_per_block")) {
    complain_misuse("cuFuncSetAttribute: " + k->name + " cannot have " + std::to_string(value) + " bytes of dynamic shared memory");
    return failed(invalid_value);
  }
  return k->most_dynamic = static_cast<unsigned>(value), success;
}
API int cuFuncSetCacheConfig(void*, int) { return success; }

// Since there is one context, libraries are modules, and their kernels are functions.
API int cuLibraryLoadData(void** to, const void* image, int*, void**, unsigned, int*, void**, unsigned) { return cuModuleLoadData(to, image); }
API int cuLibraryLoadFromFile(void** to, const char* name, int*, void**, unsigned, int*, void**, unsigned) { return cuModuleLoad(to, name); }
API int cuLibraryUnload(void* library) { return cuModuleUnload(library); }
API int cuLibraryGetModule(void** to, void* library) { return *to = library, success; }
API int cuLibraryGetKernel(void** to, void* library, const char* name) { return cuModuleGetFunction(to, library, name); }
API int cuLibraryGetGlobal(DevicePointer* to, std::size_t* bytes, void* library, const char* name) { return cuModuleGetGlobal(to, bytes, library, name); }
API int cuLibraryGetManaged(DevicePointer* to, std::size_t* bytes, void* library, const char* name) { return cuModuleGetGlobal(to, bytes, library, name); }
API int cuKernelGetFunction(void** to, void* kernel) { return *to = kernel, success; }
API int cuKernelGetAttribute(int* value, int attribute, void* kernel, int) { return cuFuncGetAttribute(value, attribute, kernel); }
API int cuKernelSetAttribute(int attribute, int value, void* kernel, int) { return cuFuncSetAttribute(kernel, attribute, value); }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t shared) {
  return *blocks = blocks_per_multiprocessor(static_cast<Kernel*>(function), threads, shared), success;
}
namespace {
int launch(void* function, Dim3 grid, Dim3 block, std::optional<Dim3> cluster, unsigned shared, void* stream, void** arguments, bool cooperative,
           bool dependent = false) {
  const Operation operation(stream, "");
  if (function == nullptr) return failed(invalid_handle);
  if (arguments == nullptr && !static_cast<Kernel*>(function)->parameters.empty()) return lacking("cuLaunchKernel with CU_LAUNCH_PARAM_BUFFER_POINTER");
  return run({static_cast<Kernel*>(function), grid, block, cluster, shared, arguments, cooperative, stream, dependent});
}
}  // namespace
API int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments, void**) {
  return launch(f, {gx, gy, gz}, {bx, by, bz}, {}, shared, stream, arguments, false);
}
API int cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments) {
  return launch(f, {gx, gy, gz}, {bx, by, bz}, {}, shared, stream, arguments, true);
}
namespace {
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int number;
    unsigned cluster[3];
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
}  // namespace
API int cuLaunchKernelEx(const LaunchConfig* c, void* f, void** arguments, void**) {
  std::optional<Dim3> cluster;
  bool cooperative = false, dependent = false;
  for (unsigned k = 0; k < c->count; ++k) {
    const LaunchAttribute& a = c->attributes[k];
    if (a.id == 4) cluster = Dim3{a.cluster[0], a.cluster[1], a.cluster[2]};
    if (a.id == 2) cooperative = a.number != 0;
    if (a.id == 6) dependent = a.number != 0;
  }
  return launch(f, {c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, cluster, c->shared, c->stream, arguments, cooperative, dependent);
}

API int cuOccupancyMaxActiveClusters(int* clusters, void* function, const void* config) {
  const auto* c = static_cast<const LaunchConfig*>(config);
  unsigned blocks = 1;
  for (unsigned k = 0; k < c->count; ++k) {
    if (c->attributes[k].id == 4) blocks = c->attributes[k].cluster[0] * c->attributes[k].cluster[1] * c->attributes[k].cluster[2];
  }
  const int threads = static_cast<int>(c->block[0] * c->block[1] * c->block[2]);
  const int each = blocks_per_multiprocessor(static_cast<Kernel*>(function), threads, c->shared);
  return *clusters = each * static_cast<int>(fact("sm_count")) / static_cast<int>(blocks), success;
}

// Tensor maps in the emulator's encoding; enumerators have the values of cuda.h.
using autosched::emulator::ptx::ElementKind;
using autosched::emulator::ptx::EncodedTensorMap;
using autosched::emulator::ptx::LoadedAs;
using autosched::emulator::ptx::MapField;

// Encodes the fields common to tiled and im2col maps, including the box's inner size. False if they are invalid.
static bool begin_map(EncodedTensorMap& m, const void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes,
                      const std::uint64_t* strides, unsigned inner, const unsigned* element_strides, int interleave, int swizzle, int fill) {
  using Kind = ElementKind;
  static constexpr struct {
    unsigned bytes;
    Kind kind;
    unsigned loaded_as = LoadedAs::as_stored;
  } elements[] = {{1, Kind::unsigned_integer}, {2, Kind::unsigned_integer}, {4, Kind::unsigned_integer}, {4, Kind::signed_integer},
                  {8, Kind::unsigned_integer}, {8, Kind::signed_integer},   {2, Kind::f16},              {4, Kind::f32},
                  {8, Kind::f64},              {2, Kind::bf16},             {4, Kind::f32, LoadedAs::without_subnormals},
                  {4, Kind::f32, LoadedAs::rounded_to_tf32},
                  {4, Kind::f32, LoadedAs::rounded_to_tf32 | LoadedAs::without_subnormals}};
  if (to == nullptr || rank < 1 || rank > 5 || element < 0 || element > 12 || swizzle < 0 || inner > 256 || interleave < 0 || interleave > 2 ||
      (interleave != 0 && rank < 3)) {
    return false;
  }
  const unsigned unit = interleave == 2 ? 32 : 16;
  const std::uint64_t bytes = std::uint64_t{inner} * elements[element].bytes;
  if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<std::uint64_t>(to) % 64 != 0 || reinterpret_cast<std::uint64_t>(base) % unit != 0 ||
      (interleave == 0 && swizzle != 0 && bytes > (16u << swizzle)) || (fill != 0 && elements[element].kind <= Kind::signed_integer)) {
    return false;
  }
  m.what = EncodedTensorMap::mark;
  m.base = reinterpret_cast<std::uint64_t>(base);
  m.rank = static_cast<std::uint8_t>(rank);
  m.element_bytes = static_cast<std::uint8_t>(elements[element].bytes);
  m.kind = elements[element].kind;
  m.loaded_as = static_cast<std::uint8_t>(elements[element].loaded_as);
  m.swizzle_bytes = static_cast<std::uint8_t>(swizzle == 0 ? 0 : 16u << swizzle);
  m.fills_nan = fill != 0;
  m.slice_bytes = static_cast<std::uint8_t>(16 * interleave);
  m.given |= EncodedTensorMap::bit_of(MapField::global_address);
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] < 1 || sizes[d] > (std::uint64_t{1} << 32) || element_strides[d] < 1 || element_strides[d] > 8 ||
        (d + 1 < rank && (strides[d] % unit != 0 || strides[d] >= (std::uint64_t{1} << 40)))) {
      return false;
    }
    m.last[d] = static_cast<std::uint32_t>(sizes[d] - 1);
    m.element_strides[d] = element_strides[d];
    for (const MapField field : {MapField::global_dim, MapField::box_dim, MapField::element_stride}) m.given |= EncodedTensorMap::bit_of(field, d);
    if (d + 1 < rank) {
      m.strides[d] = strides[d];
      m.given |= EncodedTensorMap::bit_of(MapField::global_stride, d);
    }
  }
  return true;
}

static int end_map(void* to, const EncodedTensorMap& m, bool possible, const char* function) {
  if (!possible) {
    complain_misuse(std::string(function) + " is given what no tensor can have: see the CUDA Driver API, Tensor Map Object Management");
    return failed(invalid_value);
  }
  std::memcpy(to, &m, sizeof m);
  return success;
}

API int cuTensorMapEncodeTiled(void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes, const std::uint64_t* strides,
                               const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int, int fill) {
  if (swizzle > 3) return lacking("cuTensorMapEncodeTiled with a swizzle of 128 bytes in other atoms");
  EncodedTensorMap m{};
  bool possible = begin_map(m, to, element, rank, base, sizes, strides, box[0], element_strides, interleave, swizzle, fill);
  for (unsigned d = 0; possible && d < rank; ++d) {
    m.box[d] = box[d];
    possible = box[d] >= 1 && box[d] <= 256;
  }
  return end_map(to, m, possible, "cuTensorMapEncodeTiled");
}

API int cuTensorMapEncodeIm2col(void* to, int element, unsigned rank, void* base, const std::uint64_t* sizes, const std::uint64_t* strides,
                                const int* lower, const int* upper, unsigned channels, unsigned pixels, const unsigned* element_strides,
                                int interleave, int swizzle, int, int fill) {
  if (swizzle > 3) return lacking("cuTensorMapEncodeIm2col with a swizzle of 128 bytes in other atoms");
  EncodedTensorMap m{};
  bool possible = begin_map(m, to, element, rank, base, sizes, strides, channels, element_strides, interleave, swizzle, fill) && rank >= 3 &&
                  pixels >= 1 && pixels <= 1024;
  const int reach = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  m.im2col = 1;
  m.box[0] = channels;
  m.box[1] = pixels;
  for (unsigned k = 0; possible && k + 2 < rank; ++k) {
    const int first = lower[k], last = upper[k];
    m.box[2 + k] = EncodedTensorMap::corners(first, last);
    possible = first >= -reach && first < reach && last >= -reach && last < reach && m.first_pixel(k) <= m.last_pixel(k);
  }
  return end_map(to, m, possible, "cuTensorMapEncodeIm2col");
}

API int cuMemAlloc(DevicePointer* to, std::size_t bytes) { return give(to, bytes, Allocation::Kind::device, "cuMemAlloc"); }
BOTH(cuMemAlloc, (DevicePointer * to, std::size_t bytes), (to, bytes))
API int cuMemAllocAsync(DevicePointer* to, std::size_t bytes, void* stream) {
  if (to == nullptr || bytes == 0) return failed(invalid_value);
  const Operation operation(stream, "cuMemAllocAsync");
  void* p = allocate(bytes, Allocation::Kind::device, "cuMemAllocAsync", true);
  if (p == nullptr) return failed(out_of_memory);
  note_use(p, bytes, use_write);
  return *to = reinterpret_cast<DevicePointer>(p), success;
}
API int cuMemAllocManaged(DevicePointer* to, std::size_t bytes, unsigned) { return give(to, bytes, Allocation::Kind::managed, "cuMemAllocManaged"); }
API int cuMemFree(DevicePointer p) { return release(pointer(p), "cuMemFree"); }
BOTH(cuMemFree, (DevicePointer p), (p))
API int cuMemFreeAsync(DevicePointer p, void* stream) {
  return on(stream, "cuMemFreeAsync", [=] { return release(pointer(p), "cuMemFreeAsync", true); });
}
API int cuMemAllocHost(void** to, std::size_t bytes) { return (*to = allocate(bytes, Allocation::Kind::host, "cuMemAllocHost")) != nullptr ? success : failed(out_of_memory); }
BOTH(cuMemAllocHost, (void** to, std::size_t bytes), (to, bytes))
API int cuMemHostAlloc(void** to, std::size_t bytes, unsigned) { return cuMemAllocHost(to, bytes); }
API int cuMemFreeHost(void* p) { return release(p, "cuMemFreeHost"); }
API int cuMemGetInfo(std::size_t* free, std::size_t* total) { return *free = free_bytes(), *total = fact("memory_bytes"), success; }
BOTH(cuMemGetInfo, (std::size_t * free, std::size_t* total), (free, total))
API int cuMemcpyHtoD(DevicePointer to, const void* from, std::size_t n) { return copy(pointer(to), from, n, 1, "cuMemcpyHtoD"); }
BOTH(cuMemcpyHtoD, (DevicePointer to, const void* from, std::size_t n), (to, from, n))
API int cuMemcpyDtoH(void* to, DevicePointer from, std::size_t n) { return copy(to, pointer(from), n, 2, "cuMemcpyDtoH"); }
BOTH(cuMemcpyDtoH, (void* to, DevicePointer from, std::size_t n), (to, from, n))
API int cuMemcpyDtoD(DevicePointer to, DevicePointer from, std::size_t n) { return copy(pointer(to), pointer(from), n, 3, "cuMemcpyDtoD"); }
BOTH(cuMemcpyDtoD, (DevicePointer to, DevicePointer from, std::size_t n), (to, from, n))
API int cuMemcpyHtoDAsync(DevicePointer to, const void* from, std::size_t n, void* stream) { return on(stream, "cuMemcpyHtoDAsync", [=] { return cuMemcpyHtoD(to, from, n); }); }
BOTH(cuMemcpyHtoDAsync, (DevicePointer to, const void* from, std::size_t n, void* s), (to, from, n, s))
API int cuMemcpyDtoHAsync(void* to, DevicePointer from, std::size_t n, void* stream) { return on(stream, "cuMemcpyDtoHAsync", [=] { return cuMemcpyDtoH(to, from, n); }); }
BOTH(cuMemcpyDtoHAsync, (void* to, DevicePointer from, std::size_t n, void* s), (to, from, n, s))
API int cuMemcpyDtoDAsync(DevicePointer to, DevicePointer from, std::size_t n, void* stream) { return on(stream, "cuMemcpyDtoDAsync", [=] { return cuMemcpyDtoD(to, from, n); }); }
BOTH(cuMemcpyDtoDAsync, (DevicePointer to, DevicePointer from, std::size_t n, void* s), (to, from, n, s))
API int cuMemcpy(DevicePointer to, DevicePointer from, std::size_t n) { return copy(pointer(to), pointer(from), n, 4, "cuMemcpy"); }
API int cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t n, void* stream) { return on(stream, "cuMemcpyAsync", [=] { return cuMemcpy(to, from, n); }); }
API int cuMemsetD8(DevicePointer to, unsigned char value, std::size_t n) { return fill_with(to, value, n, "cuMemsetD8"); }
BOTH(cuMemsetD8, (DevicePointer to, unsigned char value, std::size_t n), (to, value, n))
API int cuMemsetD16(DevicePointer to, unsigned short value, std::size_t n) { return fill_with(to, value, n, "cuMemsetD16"); }
BOTH(cuMemsetD16, (DevicePointer to, unsigned short value, std::size_t n), (to, value, n))
API int cuMemsetD32(DevicePointer to, unsigned value, std::size_t n) { return fill_with(to, value, n, "cuMemsetD32"); }
BOTH(cuMemsetD32, (DevicePointer to, unsigned value, std::size_t n), (to, value, n))
API int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t n, void* stream) { return on(stream, "cuMemsetD8Async", [=] { return cuMemsetD8(to, value, n); }); }
API int cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t n, void* stream) { return on(stream, "cuMemsetD32Async", [=] { return cuMemsetD32(to, value, n); }); }

// Streams and events never delay work.
API int cuStreamCreate(void** to, unsigned flags) { return *to = add_stream(flags, 0), success; }
API int cuStreamCreateWithPriority(void** to, unsigned flags, int priority) { return *to = add_stream(flags, priority), success; }
API int cuStreamDestroy(void* s) { return destroy_stream(s), success; }
BOTH(cuStreamDestroy, (void* s), (s))
API int cuStreamSynchronize(void* s) { return end_overlaps(), host_waits_for_stream(s), failed(sticky_error()); }
API int cuStreamQuery(void* s) { return cuStreamSynchronize(s); }
API int cuStreamWaitEvent(void* s, void* e, unsigned) { return wait_for_event(s, e), success; }
API int cuEventCreate(void** to, unsigned) { return *to = add_event(), success; }
API int cuEventDestroy(void* e) { return destroy_event(e), success; }
BOTH(cuEventDestroy, (void* e), (e))
API int cuEventRecord(void* e, void* s) { return record_event(e, s), success; }
API int cuEventSynchronize(void* e) { return end_overlaps(), host_waits_for_event(e), failed(sticky_error()); }
API int cuEventQuery(void* e) { return cuEventSynchronize(e); }
API int cuEventElapsedTime(float* to, void* a, void* b) {
  double begin = 0, end = 0;
  if (!event_milliseconds(a, begin) || !event_milliseconds(b, end)) return failed(invalid_handle);
  return *to = static_cast<float>(end - begin), success;
}
BOTH(cuEventElapsedTime, (float* to, void* a, void* b), (to, a, b))

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
