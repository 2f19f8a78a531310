// Dependent launches, which may begin before previous launches of their stream have ended: griddepcontrol, PTX ISA
// 9.7.13.13.
#pragma once

namespace autosched::ptx {

// Waits until previous grids have ended and their writes are visible. Does nothing in an ordinary launch.
__device__ __forceinline__ void wait_for_grids_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the dependent grids start once all blocks of this grid have called this function or have exited.
__device__ __forceinline__ void launch_grids_behind() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace autosched::ptx
