// Calls a tuned kernel from C++: no Python, no autosched, no CUDA toolkit.
//
//   autosched export --db best.db --cubin kernels          (--ptx as well to run it without a GPU)
//   g++ -std=c++17 -O2 -Ikernels main.cpp -o example -ldl
//   ./example                                              on a GPU
//   autosched run --device h200 ./example                  without a GPU: PTX instead of the cubin, in the emulator
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "autosched_kernels.hpp"

namespace {

constexpr int rows = 64, columns = 512;

// Creates a context and allocates device memory. A program usually gets both from the CUDA runtime, torch or cupy.
struct Memory {
  int (*allocate)(std::uint64_t*, std::size_t);
  int (*to_device)(std::uint64_t, const void*, std::size_t);
  int (*to_host)(void*, std::uint64_t, std::size_t);
  int (*synchronize)();
  Memory() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto look = [&](auto& to, const char* name) { to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name)); };
    look(allocate, "cuMemAlloc_v2");
    look(to_device, "cuMemcpyHtoD_v2");
    look(to_host, "cuMemcpyDtoH_v2");
    look(synchronize, "cuCtxSynchronize");
  }
};

int failed(const autosched::Error& error) {
  std::fprintf(stderr, "error %d: %s\n", static_cast<int>(error.status), error.message.c_str());
  return static_cast<int>(error.status);
}

}  // namespace

int main() {
  int ordinal = 0;
  if (autosched::Error error = autosched::current_device(ordinal)) return failed(error);
  autosched::Device device;
  if (autosched::Error error = autosched::describe(ordinal, device)) return failed(error);
  std::printf("GPU: %s, sm_%d\n", device.name.c_str(), device.sm);

  autosched::Selection softmax;
  if (autosched::Error error = autosched::select(autosched::kernels, "softmax rows=64 columns=512 dtype=f32", device, softmax)) return failed(error);
  std::printf("kernel: %s, verification: %s\n", softmax.kernel->problem, softmax.kernel->verification);

  std::vector<float> x(rows * columns), out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37f * static_cast<float>(i));
  const Memory memory;
  const std::size_t bytes = x.size() * sizeof(float);
  std::uint64_t at[2] = {0, 0};
  if (memory.allocate(&at[0], bytes) != 0 || memory.allocate(&at[1], bytes) != 0 || memory.to_device(at[0], x.data(), bytes) != 0) return 20;
  void* const arrays[] = {reinterpret_cast<void*>(at[0]), reinterpret_cast<void*>(at[1])};
  if (autosched::Error error = autosched::launch(softmax, arrays, 2)) return failed(error);
  if (memory.synchronize() != 0 || memory.to_host(out.data(), at[1], bytes) != 0) return 21;

  double worst = 0;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(x[r * columns + c]));
    for (int c = 0; c < columns; ++c) worst = std::fmax(worst, std::fabs(out[r * columns + c] - std::exp(static_cast<double>(x[r * columns + c])) / sum));
  }
  std::printf("largest error: %.2g\n", worst);
  return worst < 1e-6 ? 0 : 1;
}
