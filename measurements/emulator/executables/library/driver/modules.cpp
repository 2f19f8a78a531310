// Modules of the libcuda replacement, and their functions and variables.
#include <cstdio>
#include <cstring>

#include "driver/driver.hpp"

using namespace autosched::program;
using namespace autosched::program::driver;

namespace {
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
}  // namespace

API int cuModuleLoadData(void** to, const void* image) {
  if (std::memcmp(image, "\x7f" "ELF", 4) == 0) {  // a cubin is rejected: programs that also have PTX then load the PTX
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
  auto* image = new std::string;  // the module keeps a pointer to the image
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

// As there is only one context, a library is a module, and its kernels are functions.
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
