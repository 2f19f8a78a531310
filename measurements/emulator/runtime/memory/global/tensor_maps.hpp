// Tensor maps that threads write.
#pragma once
#include <cstdint>

namespace autosched::emulator {

struct Machine;

// Fences of tensor maps in global memory (global/tensor_maps.cpp). Writes of threads to a map become visible to the
// Tensor Memory Accelerator after a fence.proxy.tensormap::generic.release by the writer, and then an .acquire of the
// map's address by a thread of the block that uses the map. ``narrow``: the fence has block scope.
// ``lanes``: the lanes of this thread's warp that execute the fence.
void release_tensor_maps(Machine& machine, std::uint32_t lanes, bool whole, bool narrow);
void acquire_tensor_map(Machine& machine, const void* address, std::uint32_t lanes, bool narrow);
void check_tensor_map_acquired(Machine& machine, const void* address, const char* instruction);

}  // namespace autosched::emulator
