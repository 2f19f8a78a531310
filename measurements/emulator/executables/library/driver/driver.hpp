// Functions shared by the files of the libcuda replacement. Device pointers are 64-bit numbers; handles are pointers to the
// types of core.hpp.
#pragma once
#include <cstdint>

#include "core.hpp"

#define API extern "C" __attribute__((visibility("default")))
// Newer versions of a driver function have a suffix such as _v2. Programs are compiled to call one of the versions.
#define BOTH(NAME, PARAMETERS, ARGUMENTS) \
  API int NAME##_v2 PARAMETERS { return NAME ARGUMENTS; }

namespace autosched::program::driver {

using DevicePointer = std::uint64_t;
inline void* pointer(DevicePointer p) { return reinterpret_cast<void*>(p); }

}  // namespace autosched::program::driver
