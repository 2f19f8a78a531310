// In place of the CUDA driver, and of torch's function that returns the current stream. Launches are handed to a
// listener; a tensor map holds its address and a digest of all else that it was encoded from.
#include <atomic>
#include <cstdint>
#include <initializer_list>

#define API extern "C" __attribute__((visibility("default")))

namespace {
using Listener = int (*)(const void* config, void* function, void** parameters, void* context);
std::atomic<Listener> listener{nullptr};
std::atomic<void*> stream{nullptr};
std::atomic<bool> replaces{true};
thread_local void* contexts[8];  // a stack; none at first
thread_local int depth = 0;

struct Map {
  void* address;
  std::uint64_t digest[15];
};

void mix(std::uint64_t& hash, std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3u; }
}  // namespace

API void stand_in_listen(Listener to) { listener = to; }
API void stand_in_stream(void* current) { stream = current; }
API int stand_in_contexts() { return depth; }

API int cuLaunchKernelEx(const void* config, void* function, void** parameters, void**) {
  const Listener to = listener.load();
  return to == nullptr ? 0 : to(config, function, parameters, depth == 0 ? nullptr : contexts[depth - 1]);
}
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
