// Tensor maps that threads write.
#pragma once
#include <cstdint>

namespace autosched::emulator {

struct Machine;

// Tensor maps in global memory (global/tensor_maps.cpp): writes of threads become visible to the Tensor Memory
// Accelerator after a fence.proxy.tensormap::generic.release and, by a thread of its block, an .acquire of the map's
// address. ``narrow``: of block scope.
void release_tensor_maps(Machine& machine, std::uint32_t lanes, bool whole, bool narrow);  // lanes of this thread's warp
void acquire_tensor_map(Machine& machine, const void* address, std::uint32_t lanes, bool narrow);
void check_tensor_map_acquired(Machine& machine, const void* address, const char* instruction);

}  // namespace autosched::emulator
