// Registration of kernels and variables by their host addresses, called by nvcc's host code before main (crt/host_runtime.h).
#include <cstring>
#include <string>

#include "runtime.hpp"

using namespace autosched::program;
using namespace autosched::program::runtime;

namespace {

struct FatBinary {  // fatbinary_section.h
  int magic, version;
  const void* data;
  // in version 2: pointers to the containers of separately compiled files, up to a null pointer
  const void** prelinked;
};
constexpr int fat_magic = 0x466243b1, linked_version = 2;

std::size_t fat_bytes(const void* data) {  // size of a container, according to its header
  struct Header {
    std::uint32_t magic;
    std::uint16_t version, header;
    std::uint64_t size;
  } h;
  std::memcpy(&h, data, sizeof h);
  return h.magic == 0xba55ed50u ? h.header + h.size : 0;
}

// by the address of the host function, and by the address of the kernel itself
std::unordered_map<const void*, Kernel*> kernels;
std::unordered_map<const void*, Variable*> variables;  // by address of the host variable
std::recursive_mutex registry;

}  // namespace

namespace autosched::program::runtime {

Kernel* kernel_of(const void* function) {
  const auto entry = kernels.find(function);
  return entry == kernels.end() ? nullptr : entry->second;
}

const void* function_of(const Kernel* kernel) {
  for (const auto& [function, k] : kernels) {
    if (k == kernel && function != kernel) return function;
  }
  return kernel;
}

Variable* variable_of(const void* symbol) {
  const auto entry = variables.find(symbol);
  if (entry == variables.end()) return nullptr;
  load(entry->second->module);
  return entry->second;
}

}  // namespace autosched::program::runtime

API void** __cudaRegisterFatBinary(void* wrapper) {
  const std::lock_guard lock(registry);
  FatBinary fat;
  std::memcpy(&fat, wrapper, sizeof fat);
  if (fat.magic != fat_magic) return reinterpret_cast<void**>(add_module("", 0));
  if (fat.version != linked_version) return reinterpret_cast<void**>(add_module(fat.data, fat_bytes(fat.data)));
  auto* image = new std::string;  // the image must live as long as the module
  for (const void** each = fat.prelinked; *each != nullptr; ++each) {
    image->append(static_cast<const char*>(*each), fat_bytes(*each));
    image->append(-image->size() % 8, '\0');
  }
  return reinterpret_cast<void**>(add_module(image->data(), image->size()));
}
API void __cudaRegisterFatBinaryEnd(void**) {}
API void __cudaUnregisterFatBinary(void**) {}
API void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, void*, void*, void*, void*, int*) {
  const std::lock_guard lock(registry);
  Kernel* k = add_kernel(reinterpret_cast<Module*>(module), name);
  kernels[host] = k;
  kernels[k] = k;
}
API void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, std::size_t size, int constant, int) {
  const std::lock_guard lock(registry);
  variables[host] = add_variable(reinterpret_cast<Module*>(module), name, size, constant != 0, false);
}
API void __cudaRegisterManagedVar(void** module, void** host, char*, const char* name, int, std::size_t size, int constant, int) {
  const std::lock_guard lock(registry);
  Variable* v = add_variable(reinterpret_cast<Module*>(module), name, size, constant != 0, true);
  *host = reinterpret_cast<void*>(v->address);
  variables[host] = v;
}
API char __cudaInitModule(void** module) { return load(reinterpret_cast<Module*>(module)) == success; }
API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) { unsupported("texture references"); }
API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) { unsupported("surface references"); }
