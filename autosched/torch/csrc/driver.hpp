// Functions of the CUDA driver and of torch that a launch needs. Their addresses are looked up at run time, so neither
// headers nor linking is needed.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace autosched::host {

// Types as in cuda.h (CUDA Driver API, Data types used by CUDA driver).
struct LaunchAttribute {
  static constexpr int cooperative = 2, cluster_dimension = 4, programmatic_stream_serialization = 6;
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
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
struct alignas(64) TensorMap {
  std::byte bytes[128];
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

struct Driver {
  int (*launch)(const LaunchConfig*, void* function, void** parameters, void** extra);
  int (*current_context)(void**);
  int (*push_context)(void*);
  int (*pop_context)(void**);
  int (*device)(int*, int ordinal);
  int (*retain_primary_context)(void**, int device);
  int (*replace_address)(TensorMap*, void*);  // null if the driver is older than CUDA 12
  std::int32_t (*current_stream)(std::int32_t device, void** stream);  // function of torch

  // Loads both libraries. Returns the name of the missing library or function, or "".
  std::string open(const char* driver_name, const char* torch_name) {
    void* driver_library = dlopen(driver_name, RTLD_NOW);
    if (driver_library == nullptr) return std::string(driver_name) + " cannot be loaded";
    void* torch_library = dlopen(torch_name, RTLD_NOW);
    if (torch_library == nullptr) return std::string(torch_name) + " cannot be loaded";
    std::string missing;
    const auto find = [&](auto& function, void* library, const char* name) {
      void* symbol = dlsym(library, name);
      if (symbol == nullptr) missing = std::string(name) + " is missing";
      std::memcpy(&function, &symbol, sizeof symbol);
    };
    find(replace_address, driver_library, "cuTensorMapReplaceAddress");
    missing.clear();
    find(launch, driver_library, "cuLaunchKernelEx");
    find(current_context, driver_library, "cuCtxGetCurrent");
    find(push_context, driver_library, "cuCtxPushCurrent_v2");
    find(pop_context, driver_library, "cuCtxPopCurrent_v2");
    find(device, driver_library, "cuDeviceGet");
    find(retain_primary_context, driver_library, "cuDevicePrimaryCtxRetain");
    find(current_stream, torch_library, "aoti_torch_get_current_cuda_stream");
    return missing;
  }
};

}  // namespace autosched::host
