// Launches, attributes of kernels and occupancy, in the libcudart replacement.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct Configuration {
  Dim3 grid, block;
  std::size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

int launch(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream, bool cooperative,
           std::optional<Dim3> cluster = {}, bool dependent = false) {
  Kernel* k = kernel_of(function);
  if (k == nullptr) return failed(invalid_device_function);
  const Launch one{k, grid, block, cluster, shared, arguments, cooperative, stream, dependent};
  if (!captured(stream)) {
    const Operation operation(stream, "");
    return run(one);
  }
  if (const int error = learn(k); error != success) return failed(error);
  return keep(stream, Work::kernel, stored_launch(one));
}

}  // namespace

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

API int cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  return launch(function, grid, block, arguments, shared, stream, false);
}
API int cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments, std::size_t shared, void* stream) {
  return launch(function, grid, block, arguments, shared, stream, true);
}
namespace {
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
}  // namespace
API int cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments) {
  const LaunchAttributes with = read_attributes(config->attributes, config->count);
  if (with.not_emulated != nullptr) return unsupported(with.not_emulated);
  return launch(function, config->grid, config->block, arguments, config->shared, config->stream, with.cooperative, with.cluster, with.dependent);
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
      complain_misuse("cudaFuncSetAttribute: " + k->name + " can have at most " +
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
  const Dim3 cluster = read_attributes(config->attributes, config->count).cluster.value_or(Dim3{});
  const unsigned size = cluster.x * cluster.y * cluster.z;
  const Dim3& b = config->block;
  *clusters = blocks_per_multiprocessor(k, static_cast<int>(b.x * b.y * b.z), config->shared) * static_cast<int>(fact("sm_count")) / static_cast<int>(std::max(size, 1u));
  return success;
}
