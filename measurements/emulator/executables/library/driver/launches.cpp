// Launches of kernels, and how many blocks and clusters fit.
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
