// Allocations, copies and memsets of the libcuda replacement.
#include <algorithm>

#include "driver/driver.hpp"
#include "work.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

namespace {

int give(DevicePointer* to, std::size_t bytes, Allocation::Kind kind, const char* function) {
  if (to == nullptr || bytes == 0) return failed(invalid_value);
  void* p = allocate(bytes, kind, function);
  if (p == nullptr) return failed(out_of_memory);
  return *to = reinterpret_cast<DevicePointer>(p), success;
}

// Executes the work `body` as an operation of a stream.
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
