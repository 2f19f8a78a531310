// Launches that may begin before those in front of them in their stream have ended: PTX ISA 9.7.13.13, griddepcontrol.
#pragma once

namespace autosched::ptx {

// Waits for the grids in front of this one to end: all that they wrote is visible then. Nothing in an ordinary launch.
__device__ __forceinline__ void wait_for_grids_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets dependent grids after this one start once all blocks of this grid have called it or have exited.
__device__ __forceinline__ void launch_grids_behind() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace autosched::ptx
