// Products of tile programs by tcgen05 (PTX ISA 9.7.16): one thread multiplies boxes in shared memory and accumulates
// in tensor memory. Each warp then reads a quarter of the lanes, in the register layout of mma.m16n8.
#pragma once
#include <autosched/intrinsics/tcgen05.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/tile/box_ring.cuh>
#include <autosched/tile/boxes.cuh>

namespace autosched::tile {

// Fences order tcgen05 instructions of different threads (PTX ISA 9.7.16.6.4): loads after multiplications, and
// deallocation after loads. Multiplications of one thread are ordered without fences, and the barrier of a stage orders
// TMA's copies.

// One warp allocates tensor memory. After the next barrier of the block, all threads can read its address in shared
// memory.
__device__ __forceinline__ void allocate_tensor(unsigned address, unsigned columns) {
  ptx::warp_sync();
  ptx::tcgen05_alloc<1>(address, columns);
  ptx::tcgen05_relinquish_alloc_permit<1>();
}
__device__ __forceinline__ unsigned allocated_tensor(unsigned address) {
  return ptx::ld_shared<4>(address).word[0];
}

// Called by one thread: d += a @ b, or d = a @ b, for Count * Rows rows. The sums are in Count * n adjacent columns of
// tensor memory.
template <class A, class B, int Rows, int Count>
__device__ __forceinline__ void multiply_tensor(unsigned d, unsigned tile_a, unsigned tile_b, bool accumulate) {
  using T = typename A::T;
  using OfA = typename A::Boxes;
  using OfB = typename B::Boxes;
  constexpr int n = B::extent;
  constexpr int step = Rows == 128 || Tcgen05Type<T>::kind == ptx::Tcgen05Kind::i8 ? 16 : 8;
  static_assert(n % step == 0 && n <= 256, "rule tensor_memory: invalid n of tcgen05.mma");
  constexpr unsigned instruction = tcgen05_instruction<T, Rows, n, OfA::major, OfB::major>;
  const unsigned long long a = tcgen05_matrix<OfA>(tile_a), b = tcgen05_matrix<OfB>(tile_b);
#pragma unroll
  for (int i = 0; i < Count; ++i) {
#pragma unroll
    for (int step = 0; step < A::depth * int(sizeof(T)) / OfA::k_bytes; ++step) {
      ptx::Tcgen05Mma<Tcgen05Type<T>::kind, 1>::multiply(d + unsigned(i * n), a + OfA::advance(step, Rows * i),
                                                         b + OfB::advance(step, 0), instruction, accumulate || step > 0);
    }
  }
}

// Adds 8 columns of 16 lanes (four registers) to acc. Without Adds, acc is overwritten.
template <int Registers, bool Adds, class Sum>
__device__ __forceinline__ void read_fragments(Sum* acc, unsigned from) {
  unsigned x[Registers];
  ptx::tcgen05_load_fragments(x, from);
  ptx::tcgen05_wait_loads();
#pragma unroll
  for (int r = 0; r < Registers; ++r) {
    ptx::hold_register(x[r]);  // prevents the compiler from reading the register before the wait
    Sum read;
    if constexpr (is_same<Sum, float>) {
      read = ptx::float_of(x[r]);
    } else {
      read = Sum(x[r]);
    }
    acc[r] = Adds ? acc[r] + read : read;
  }
}

// Reads this warp's part of Count * Rows rows, which Groups warpgroups share. If Adds, the values are added to acc,
// otherwise they overwrite acc.
template <int Rows, int N, int Count, int Groups, bool Adds, class Sum>
__device__ __forceinline__ void read_tensor(Sum* acc, unsigned tensor, int warp) {
  constexpr int halves = Rows / 64, columns = N % 64 == 0 ? 64 : N % 16 == 0 ? 16 : 8;
  ptx::tcgen05_fence_after_sync();
  const unsigned from = tensor + (unsigned(warp % 4 * 32) << 16) + unsigned(warp / 4 * N);
#pragma unroll
  for (int i = 0; i < Count / Groups * halves; ++i) {
#pragma unroll
    for (int column = 0; column < N; column += columns) {
      read_fragments<columns / 2, Adds>(acc + (i * N + column) / 2,
                                 from + (unsigned(i % halves * 16) << 16) + unsigned(i / halves * Groups * N + column));
    }
  }
}

// A tile of operand a that threads have computed. It is stored as boxes, which multiply_tensor reads.
template <class Of, int Extent, int Depth, int Swizzle>
struct StoredOperand {
  using T = Of;
  static constexpr int depth = Depth;
  using Boxes = WgmmaOperand<T, Extent, Depth, true, Swizzle>;
};
// Stores a warp's rows. They are pairs of elements, ordered by step along k, then by fragment of mma.m16n8k16.
template <class A, int Rows, int Count, int Groups>
__device__ __forceinline__ void store_operand(unsigned tile, const unsigned* x, int warp, int lane) {
  constexpr int halves = Rows / 64, fragments = Count / Groups * halves;
#pragma unroll
  for (int step = 0; step < A::depth / 16; ++step) {
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
      const int row = i / halves * (Groups * Rows) + warp / 4 * Rows + warp % 4 * (Rows / 4) + i % halves * 16 + lane / 4;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        ptx::st_shared<4>(tile + A::Boxes::at(row + r % 2 * 8, step * 32 + lane % 4 * 4 + r / 2 * 16),
                          {{x[(step * fragments + i) * 4 + r]}});
      }
    }
  }
}

// An elected thread of the first warp runs `body(stage address, iteration)` for each of `steps` iterations, when the
// iteration's stage is full. The stage becomes empty when its multiplications are complete. The last multiplications
// arrive at `done`.
template <class C, class Body>
__device__ __forceinline__ void tensor_consume(unsigned shared, unsigned barriers, unsigned done, int steps, int warp,
                                               const Body& body) {
  if (warp == 0 && ptx::elect()) {
    PipelineState<C> stage(shared, barriers);
#pragma unroll 1
    for (int s = 0; s < steps; ++s, stage.advance()) {
      while (!ptx::mbarrier_try_wait(stage.full(), stage.parity)) {
      }
      body(stage.tile, s);
      ptx::tcgen05_commit<1>(stage.empty());
    }
    if (steps > 0) ptx::tcgen05_commit<1>(done);
  }
  ptx::warp_sync();
}

}  // namespace autosched::tile
