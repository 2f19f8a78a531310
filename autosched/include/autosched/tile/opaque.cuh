// Accumulators whose elements no register is known to hold: wmma's, which wmma.store alone can read.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// Brings Fragments of a warp's accumulators to the registers that two m16n8 fragments of mma.sync side by side would have
// them in. Each goes through `place`, which is the warp's own.
template <class I, int Fragments, class Sum>
__device__ __forceinline__ void read_sums(Sum* acc, unsigned place, int lane) {
  constexpr int stride = I::n + 8;  // wmma.store wants multiples of 16 bytes; with 8 more, lanes read from all banks
  static_assert(I::m == 16 && I::n == 16 && I::c_registers == 8);
  const unsigned own = place + 4u * unsigned(lane / 4 * stride + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < Fragments; ++i) {
    Sum* const x = acc + i * I::c_registers;
    I::store_c(place, *reinterpret_cast<const typename I::FragmentC*>(x), unsigned(stride));
    ptx::warp_sync();
#pragma unroll
    for (int half = 0; half < 4; ++half) get<2>(x + 2 * half, own + 4u * unsigned(half / 2 * 8 * stride + half % 2 * 8));
    ptx::warp_sync();  // before the next one goes there
  }
}

}  // namespace autosched::tile
