// A warpgroup's results in shared memory, as boxes that TMA stores. A box has 64 rows of `Line` bytes. Its swizzle has
// the width of a row; rows of 16 bytes are not swizzled (PTX ISA 5.5.6, "Swizzling modes").
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/mma/stmatrix.cuh>

namespace autosched {

template <class Out, int Line>
struct WgmmaOutBox {
  static_assert(sizeof(Out) == 2 || sizeof(Out) == 4, "boxes of out need elements of 2 or 4 bytes");
  static constexpr int width = Line / int(sizeof(Out));
  static constexpr int bytes = 64 * Line;
  static constexpr int registers = width / 2;  // number of accumulators of a thread

  // Offset in bytes of a 16-byte chunk of a row in the box.
  __device__ static __forceinline__ unsigned at(int row, int chunk) {
    const unsigned linear = unsigned(row * Line + chunk * 16);
    return linear ^ ((linear >> 7 & (Line / 16 - 1)) << 4);
  }

  // Stores `x`: this thread's accumulators for the columns of a box, in the order of ptx::Wgmma.
  template <class X>
  __device__ static __forceinline__ void write(unsigned box, const X (&x)[registers]) {
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32;
    if constexpr (sizeof(Out) == 4) {
#pragma unroll
      for (int r = 0; r < registers; r += 2) {  // two adjacent elements of one of two rows, 8 rows apart
        const int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
        ptx::st_shared(box + at(row, r / 4 * 2 + lane % 4 / 2) + unsigned(lane % 2 * 8), pack<Out, 2>(&x[r]));
      }
    } else if constexpr (width == 8) {
      const unsigned words[2] = {pack<Out, 2>(&x[0]).word[0], pack<Out, 2>(&x[2]).word[0]};
      ptx::stmatrix_x2(box + at(warp * 16 + lane % 16, 0), words);
    } else {
#pragma unroll
      for (int r = 0; r < registers; r += 8) {  // 16 rows of 16 columns
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = pack<Out, 2>(&x[r + 2 * i]).word[0];
        ptx::stmatrix_x4(box + at(warp * 16 + lane % 16, r / 4 + lane / 16), words);
      }
    }
  }
};

}  // namespace autosched
