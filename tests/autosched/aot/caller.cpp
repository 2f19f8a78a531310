// Usage: caller GROWTH PROBLEM OUT_FOLDER ARRAY... Launches PROBLEM's kernel twice on arrays read from files, and
// writes the arrays.
#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "autosched_kernels.hpp"

int main(int argc, char** argv) {
  int ordinal = 0;
  autosched::Device device;
  autosched::Selection s;
  autosched::Error error = autosched::current_device(ordinal);
  if (!error) error = autosched::describe(ordinal, device);
  if (!error) error = autosched::select(autosched::kernels, argv[2], device, s, std::atof(argv[1]));
  if (error) return std::printf("%s\n", error.message.c_str()), static_cast<int>(error.status);
  std::printf("match %d\n", static_cast<int>(s.match));

  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  const auto allocate = reinterpret_cast<int (*)(std::uint64_t*, std::size_t)>(dlsym(cuda, "cuMemAlloc_v2"));
  const auto up = reinterpret_cast<int (*)(std::uint64_t, const void*, std::size_t)>(dlsym(cuda, "cuMemcpyHtoD_v2"));
  const auto down = reinterpret_cast<int (*)(void*, std::uint64_t, std::size_t)>(dlsym(cuda, "cuMemcpyDtoH_v2"));
  std::vector<std::vector<char>> contents;
  std::vector<void*> arrays;
  for (int n = 4; n < argc; ++n) {
    std::ifstream file(argv[n], std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::uint64_t at = 0;
    if (allocate(&at, contents.back().size()) != 0 || up(at, contents.back().data(), contents.back().size()) != 0) return 20;
    arrays.push_back(reinterpret_cast<void*>(at));
  }
  for (int n = 0; n < 2; ++n) {
    error = autosched::launch(s, arrays.data(), static_cast<unsigned>(arrays.size()));
    if (error) return std::printf("%s\n", error.message.c_str()), static_cast<int>(error.status);
  }
  for (std::size_t n = 0; n < arrays.size(); ++n) {
    if (down(contents[n].data(), reinterpret_cast<std::uint64_t>(arrays[n]), contents[n].size()) != 0) return 21;
    std::ofstream(std::string(argv[3]) + "/" + std::to_string(n), std::ios::binary).write(contents[n].data(), static_cast<long>(contents[n].size()));
  }
}
