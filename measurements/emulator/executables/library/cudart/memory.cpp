// Memory of the libcudart replacement: allocations, copies, fills, pools, and the program's variables (symbols).
#include <algorithm>
#include <string>

#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

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

}  // namespace

namespace autosched::program::runtime {

int copy_3d(const Copy3D* p, const char* function) {
  if (p == nullptr) return failed(invalid_value);
  const Operation operation(function);
  const Array* array = p->source_array != nullptr ? p->source_array : p->target_array;
  // if a copy involves a CUDA array, its widths and x positions are in elements
  const std::size_t texel = array != nullptr ? array->texel() : 1;
  const std::size_t width = p->extent.width * texel;
  for (std::size_t z = 0; z < p->extent.depth; ++z) {
    for (std::size_t y = 0; y < p->extent.height; ++y) {
      const auto row_address = [&](Array* a, const Position& at, const Pitched& pointer) -> char* {
        if (a != nullptr) return in_array(a, at.x * a->texel(), at.y + y, at.z + z);
        return static_cast<char*>(pointer.pointer) + ((at.z + z) * pointer.ysize + at.y + y) * pointer.pitch + at.x;
      };
      const int error = copy(row_address(p->target_array, p->target_at, p->target),
                             row_address(p->source_array, p->source_at, p->source), width, p->kind, function);
      if (error != success) return error;
    }
  }
  return success;
}

int fill_rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, const char* function) {
  const Operation operation(function);
  for (std::size_t row = 0; row < height; ++row) {
    if (const int error = fill(static_cast<char*>(to) + row * pitch, value, width, function); error != success) return error;
  }
  return success;
}

}  // namespace autosched::program::runtime

API int cudaMalloc(void** to, std::size_t bytes) { return give(to, bytes, Allocation::Kind::device, "cudaMalloc"); }
namespace {
// Allocates memory in stream order, so that later work of the stream may use it.
int give_in_order(void** to, std::size_t bytes, void* stream, const char* function) {
  if (to == nullptr) return failed(invalid_value);
  const Operation operation(stream, function);
  if (bytes == 0) return *to = nullptr, success;
  void* p = allocate(bytes, Allocation::Kind::device, function, true);
  if (p == nullptr) return failed(out_of_memory);
  note_use(p, bytes, use_write);
  return *to = p, success;
}
}  // namespace
API int cudaMallocAsync(void** to, std::size_t bytes, void* stream) { return give_in_order(to, bytes, stream, "cudaMallocAsync"); }
API int cudaMallocFromPoolAsync(void** to, std::size_t bytes, void*, void* stream) { return give_in_order(to, bytes, stream, "cudaMallocFromPoolAsync"); }
API int cudaMallocManaged(void** to, std::size_t bytes, unsigned) { return give(to, bytes, Allocation::Kind::managed, "cudaMallocManaged"); }
API int cudaMallocHost(void** to, std::size_t bytes) { return give(to, bytes, Allocation::Kind::host, "cudaMallocHost"); }
API int cudaHostAlloc(void** to, std::size_t bytes, unsigned) { return give(to, bytes, Allocation::Kind::host, "cudaHostAlloc"); }
API int cudaFree(void* p) { return release(p, "cudaFree"); }
// Memory that is allocated during a capture is not freed, because the graph may run again.
API int cudaFreeAsync(void* p, void* stream) {
  if (captured(stream)) return success;
  const Operation operation(stream, "cudaFreeAsync");
  return release(p, "cudaFreeAsync", true);
}
API int cudaFreeHost(void* p) { return release(p, "cudaFreeHost"); }
API int cudaHostRegister(void*, std::size_t, unsigned) { return success; }
API int cudaHostUnregister(void*) { return success; }
API int cudaHostGetDevicePointer(void** to, void* host, unsigned) {
  if (allocation_of(host) == nullptr) return unsupported("cudaHostGetDevicePointer of registered host memory");
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
  const Operation operation("cudaMemset3D");
  for (std::size_t z = 0; z < extent.depth; ++z) {
    const int error = cudaMemset2D(static_cast<char*>(to.pointer) + z * to.ysize * to.pitch, to.pitch, value, extent.width, extent.height);
    if (error != success) return error;
  }
  return success;
}
API int cudaMemset3DAsync(Pitched to, int value, Extent extent, void* stream) {
  return enqueue(stream, Work::fill, [=] { return cudaMemset3D(to, value, extent); });
}
// The location of memory has no effect in the emulator, so the arguments that specify a location are ignored (structs
// in CUDA 13, numbers in CUDA 12).
API int cudaMemPrefetchAsync(const void*, std::size_t, std::uint64_t, unsigned long, void*) { return success; }
API int cudaMemPrefetchAsync_v2(const void*, std::size_t, std::uint64_t, unsigned, void*) { return success; }
API int cudaMemAdvise(const void*, std::size_t, int, std::uint64_t) { return success; }
API int cudaMemAdvise_v2(const void*, std::size_t, int, std::uint64_t) { return success; }

// All memory pools share one allocator, and memory is freed immediately.
namespace {
struct Pool {
  std::uint64_t threshold = 0;  // number of bytes that a GPU would keep in the pool
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
  // cudaMemPoolAttr: current and maximum number of reserved and used bytes.
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
  char* address = reinterpret_cast<char*>(v->address) + offset;
  if (to_symbol) v->unset = false;
  return to_symbol ? copy(address, host, bytes, kind, function) : copy(host, address, bytes, kind, function);
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
  v->unset = false;
  set_all(*v);
  return *to = reinterpret_cast<void*>(v->address), success;
}
API int cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const Variable* v = variable_of(symbol);
  return v == nullptr ? failed(invalid_symbol) : (*bytes = v->bytes, success);
}
