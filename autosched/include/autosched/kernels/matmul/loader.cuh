// Copies of k-tiles to shared memory, by all threads of the block.
#pragma once
#include <autosched/kernels/matmul/operands.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>

namespace autosched {

// Copies the next k-tile of both operands to a stage of shared memory.
template <class C>
struct MatmulLoader {
  using A = OperandA<C>;
  using B = OperandB<C>;
  static constexpr bool any_async = A::copy_async || B::copy_async;

  typename A::Copy a;
  typename B::Copy b;
  unsigned shared;

  __device__ __forceinline__ void start(int stage) const {
    const unsigned at = shared + unsigned(stage * C::stage_bytes);
    if constexpr (A::copy_async) a.start(at);
    if constexpr (B::copy_async) b.start(at + A::stage_bytes);
  }
  __device__ __forceinline__ void load() {
    if constexpr (!A::copy_async) a.load();
    if constexpr (!B::copy_async) b.load();
  }
  __device__ __forceinline__ void store(int stage) const {
    const unsigned at = shared + unsigned(stage * C::stage_bytes);
    if constexpr (!A::copy_async) a.store(at);
    if constexpr (!B::copy_async) b.store(at + A::stage_bytes);
  }
  __device__ __forceinline__ void advance() {
    if constexpr (A::row_major) {
      a.advance_minor();
    } else {
      a.advance_major();
    }
    if constexpr (B::row_major) {
      b.advance_major();
    } else {
      b.advance_minor();
    }
  }
  __device__ __forceinline__ static void commit() {
    if constexpr (any_async) ptx::cp_async_commit_group();
  }
  // Waits until the copies of all threads to the oldest stage are complete.
  template <int Pending>
  __device__ __forceinline__ static void wait() {
    if constexpr (any_async) ptx::cp_async_wait_group<Pending>();
    ptx::barrier_sync();
  }
};

}  // namespace autosched
