// Fragments of A in registers for wgmma, loaded from boxes in shared memory.
#pragma once
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/ptx/mma/ldmatrix.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// Loads a warp's fragment of A for multiplication number `step` from a tile of Operand (a WgmmaOperand) at `tile`. The
// fragment has 16 rows from `row` on, and 32 bytes along k. Registers 0 and 1 have rows 0-7 and 8-15 of the first 16
// bytes along k. Registers 2 and 3 have the same rows of the second 16 bytes. If lines are along m, each step covers
// whole groups of 8 lines. The swizzle repeats after 8 lines, so it does not depend on the step.
template <class T, class Operand>
__device__ __forceinline__ void load_fragment(unsigned (&a)[4], unsigned tile, int row, int step) {
  const int lane = int(threadIdx.x) % 32;
  if constexpr (Operand::major == 0) {
    ptx::ldmatrix_x4(a, tile + Operand::at(row + lane % 16, step * 32 + lane / 16 * 16));
  } else if constexpr (sizeof(T) == 2) {
    ptx::ldmatrix_x4_trans(a, tile + unsigned(step * 16 * Operand::line) +
                                  Operand::at(lane / 16 * 8 + lane % 8, (row + lane / 8 % 2 * 8) * 2));
  } else {
    static_assert(sizeof(T) == 4, "rule layout: 8-bit A must be contiguous along k, because no instruction transposes bytes");
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int k = r / 2 * 4 + lane % 4, m = row + r % 2 * 8 + lane / 4;
      a[r] = ptx::ld_shared<4>(tile + Operand::at(k, m * 4) + unsigned(step * 8 * Operand::line)).word[0];
    }
  }
}

}  // namespace autosched
