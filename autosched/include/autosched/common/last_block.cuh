// Blocks store parts of a common result; the last block to finish combines the parts.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// Every thread of the block calls this after its stores to global memory. Returns true, in all threads, in the last of
// the `blocks` blocks that share `counter`. Its threads may then read (ld.global.cg) what the others stored. `counter`
// is zero before and after the launch. `flag` is 4 bytes of shared memory that are unused after the block's loads. With
// Threads, only this many threads from thread First on call it, and use named barrier 1.
template <int Threads = 0, int First = 0>
__device__ __forceinline__ bool is_last_of(unsigned blocks, unsigned* counter, unsigned flag) {
  const auto wait_for_all = [] {
    if constexpr (Threads > 0) {
      ptx::barrier_sync(1, Threads);
    } else {
      ptx::barrier_sync();
    }
  };
  wait_for_all();  // all threads have stored their parts and finished reading shared memory
  if (threadIdx.x == First) {
    // The barrier orders the block's stores before this fence, which orders them before the increment of the counter;
    // after the increment, a fence and a barrier order the loads. Fences are cumulative (PTX ISA 8.9, causality order),
    // so the fence of one thread suffices.
    ptx::fence_gpu();
    const unsigned arrived = ptx::atomic_add(counter, 1u);
    ptx::fence_gpu();
    ptx::st_shared(flag, AlignedVector<4>{{arrived}});
  }
  wait_for_all();
  if (ptx::ld_shared<4>(flag).word[0] != blocks - 1) return false;
  if (threadIdx.x == First) ptx::st_global(counter, AlignedVector<4>{{0u}});  // ready for the next launch
  return true;
}

// The same for a number of blocks that is a constant.
template <int Blocks, int Threads = 0, int First = 0>
__device__ __forceinline__ bool is_last_block(unsigned* counter, unsigned flag) {
  return is_last_of<Threads, First>(Blocks, counter, flag);
}

// For a kernel that is launched twice; every thread calls this once. Returns true in the second launch, in which all
// stores of the first one are visible. `counter` and `flag` are as above.
template <int Blocks>
__device__ __forceinline__ bool is_second_launch(unsigned* counter, unsigned flag) {
  if (threadIdx.x == 0) {
    const unsigned arrived = ptx::atomic_add(counter, 1u);
    if (arrived == 2 * Blocks - 1) ptx::atomic_add(counter, -2u * Blocks);  // ready for the next two launches
    ptx::st_shared(flag, AlignedVector<4>{{arrived}});
  }
  ptx::barrier_sync();
  return ptx::ld_shared<4>(flag).word[0] >= Blocks;
}

}  // namespace autosched
