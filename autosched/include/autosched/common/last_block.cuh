// Detects the last block to finish, which combines partial results that all blocks have stored.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// Every thread of the block calls this after its stores to global memory. `blocks` blocks share `counter`. Returns true
// in all threads of the block that arrives last. These threads may then read (ld.global.cg) what the other blocks have
// stored. `counter` is zero before and after the launch. `flag` is the address of 4 bytes of shared memory. They are
// overwritten after all threads have arrived. If Threads is not 0, only threads First to First + Threads - 1 call the
// function, and they use named barrier 1.
template <int Threads = 0, int First = 0>
__device__ __forceinline__ bool is_last_of(unsigned blocks, unsigned* counter, unsigned flag) {
  const auto wait_for_all = [] {
    if constexpr (Threads > 0) {
      ptx::barrier_sync(1, Threads);
    } else {
      ptx::barrier_sync();
    }
  };
  wait_for_all();  // all threads have stored their results and finished reading shared memory
  if (threadIdx.x == First) {
    // The barrier orders the block's stores before the first fence, and this fence orders them before the increment of
    // the counter. The second fence and the next barrier order the loads after the increment. Fences are cumulative
    // (PTX ISA 8.9, causality order), so the fences of one thread suffice.
    ptx::fence_gpu();
    const unsigned arrived = ptx::atomic_add(counter, 1u);
    ptx::fence_gpu();
    ptx::st_shared(flag, AlignedVector<4>{{arrived}});
  }
  wait_for_all();
  if (ptx::ld_shared<4>(flag).word[0] != blocks - 1) return false;
  if (threadIdx.x == First) ptx::st_global(counter, AlignedVector<4>{{0u}});  // reset for the next launch
  return true;
}

// is_last_block for a constant number of blocks.
template <int Blocks, int Threads = 0, int First = 0>
__device__ __forceinline__ bool is_last_block(unsigned* counter, unsigned flag) {
  return is_last_of<Threads, First>(Blocks, counter, flag);
}

// For a kernel that is launched twice. Every thread calls this once. Returns true in the second launch, in which all
// stores of the first launch are visible. `counter` and `flag` are as for is_last_block.
template <int Blocks>
__device__ __forceinline__ bool is_second_launch(unsigned* counter, unsigned flag) {
  if (threadIdx.x == 0) {
    const unsigned arrived = ptx::atomic_add(counter, 1u);
    if (arrived == 2 * Blocks - 1) ptx::atomic_add(counter, -2u * Blocks);  // zero for later launches
    ptx::st_shared(flag, AlignedVector<4>{{arrived}});
  }
  ptx::barrier_sync();
  return ptx::ld_shared<4>(flag).word[0] >= Blocks;
}

}  // namespace autosched
