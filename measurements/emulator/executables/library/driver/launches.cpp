// Launches of kernels, and queries of occupancy, in the libcuda replacement.
#include "driver/driver.hpp"
#include "work.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t shared) {
  return *blocks = blocks_per_multiprocessor(static_cast<Kernel*>(function), threads, shared), success;
}
namespace {
int launch(void* function, Dim3 grid, Dim3 block, std::optional<Dim3> cluster, unsigned shared, void* stream, void** arguments, bool cooperative,
           bool dependent = false) {
  const Operation operation(stream, "");
  if (function == nullptr) return failed(invalid_handle);
  if (arguments == nullptr && !static_cast<Kernel*>(function)->parameters.empty()) return unsupported("cuLaunchKernel with CU_LAUNCH_PARAM_BUFFER_POINTER");
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
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
}  // namespace
API int cuLaunchKernelEx(const LaunchConfig* c, void* f, void** arguments, void**) {
  const LaunchAttributes with = read_attributes(c->attributes, c->count);
  if (with.not_emulated != nullptr) return unsupported(with.not_emulated);
  return launch(f, {c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, with.cluster, c->shared, c->stream, arguments, with.cooperative, with.dependent);
}

API int cuOccupancyMaxActiveClusters(int* clusters, void* function, const void* config) {
  const auto* c = static_cast<const LaunchConfig*>(config);
  const Dim3 cluster = read_attributes(c->attributes, c->count).cluster.value_or(Dim3{});
  const unsigned blocks = cluster.x * cluster.y * cluster.z;
  const int threads = static_cast<int>(c->block[0] * c->block[1] * c->block[2]);
  const int each = blocks_per_multiprocessor(static_cast<Kernel*>(function), threads, c->shared);
  return *clusters = each * static_cast<int>(fact("sm_count")) / static_cast<int>(blocks), success;
}
