// Accumulators of wmma, whose mapping of elements to registers is unknown. Only wmma.store can read them.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// Converts Fragments fragments of a warp's accumulators through shared memory at `scratch`, which belongs to this warp.
// Each fragment becomes two adjacent m16n8 fragments in the register layout of mma.sync.
template <class I, int Fragments, class Sum>
__device__ __forceinline__ void read_sums(Sum* acc, unsigned scratch, int lane) {
  // Wmma.store needs a multiple of 16 bytes; the 8 additional elements avoid bank conflicts.
  constexpr int stride = I::n + 8;
  static_assert(I::m == 16 && I::n == 16 && I::c_registers == 8);
  const unsigned own = scratch + 4u * unsigned(lane / 4 * stride + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < Fragments; ++i) {
    Sum* const x = acc + i * I::c_registers;
    I::store_c(scratch, *reinterpret_cast<const typename I::FragmentC*>(x), unsigned(stride));
    ptx::warp_sync();
#pragma unroll
    for (int half = 0; half < 4; ++half) get<2>(x + 2 * half, own + 4u * unsigned(half / 2 * 8 * stride + half % 2 * 8));
    ptx::warp_sync();  // all lanes have read the fragment before the next one overwrites it
  }
}

}  // namespace autosched::tile
