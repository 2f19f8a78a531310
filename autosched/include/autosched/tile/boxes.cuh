// Operands that wgmma and tcgen05 read from shared memory, for products in tile programs. An operand's tile consists of
// boxes, which TMA or cp.async fills.
//
// L: constants of one operand:
// - T: type of its elements
// - left: true for the left operand of a product
// - row_major: true if lines of memory are rows of the operand
// - extent and depth: size of its tile along m or n, and along k
// - swizzle: width in bytes
// - array_major and array_minor: sizes of the array in memory, contiguous along minor
// - threads: number of threads that copy
// - tma: true if TMA copies its tiles
// - anywhere: tiles may begin at any line
// - access: alignment of lines in bytes
// - stage_bytes
// - advance: direction between iterations (0: none, 1: along major, 2: along minor)
// - groups: number of warpgroups along m
// - fragments: number of fragments of 64 rows per warpgroup
#pragma once
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/intrinsics/wgmma_copy.cuh>
#include <autosched/intrinsics/wgmma_fragment.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/wgmma/of_registers.cuh>

namespace autosched::tile {

template <class L>
struct BoxOperand : L {
  using T = typename L::T;
  static constexpr bool along_k = L::left == L::row_major;
  using Boxes = WgmmaOperand<T, L::extent, L::depth, along_k, L::swizzle>;
  static constexpr int tma_bytes = L::tma ? Boxes::bytes : 0;
  static constexpr int tile_minor = along_k ? L::depth : L::extent, tile_major = along_k ? L::extent : L::depth;
  static_assert(Boxes::bytes == L::stage_bytes, "boxes must fill a tile without gaps");

  // Position of the next tile in a matrix, for copies in which each thread copies a part of the tile.
  struct ByThreads {
    const T* matrix;
    int major, minor, thread;
    template <class Of>  // a template parameter, because the class may be incomplete here
    using Pieces = WgmmaCopy<T, Boxes, Of::array_minor, Of::array_major, Of::access, Of::threads, Of::anywhere>;
    __device__ __forceinline__ void begin(unsigned at) const {
      using Copy = Pieces<L>;
      static_assert(!Copy::shifts, "rule access: cp.async copies at least 4 bytes");
      Copy(thread).begin(matrix, 0, at, 0, minor, major);
    }
  };
  // Position of the next tile, for TMA copies that one thread issues. The barrier `full` counts their bytes.
  struct ByTma {
    const ptx::TensorMap* map;
    int lead, major, minor;
    static constexpr int halves = Boxes::lines > 256 ? 2 : 1;
    __device__ __forceinline__ void fetch(unsigned at, unsigned full) const {
#pragma unroll(Boxes::boxes * halves <= 4 ? Boxes::boxes * halves : 1)
      for (int i = 0; i < Boxes::boxes * halves; ++i) {
        const int box = i / halves, behind = i % halves * (Boxes::lines / halves);
        ptx::load_box(at + unsigned(box * Boxes::box_bytes + behind * Boxes::line), *map, minor + box * Boxes::width,
                      major + behind, lead, full, ptx::Evict::normally);
      }
    }
  };
  using Copy = conditional<L::tma, ByTma, ByThreads>;
  __device__ static __forceinline__ void advance(Copy& copy) {
    if constexpr (L::advance == 1) copy.major += tile_major;
    if constexpr (L::advance == 2) copy.minor += tile_minor;
  }
};

// Issues acc += a @ b, or acc = a @ b, for a warpgroup's FM fragments of 64 rows. a and b are in shared memory. `group`
// is the warpgroup's number. The multiplications are still in flight afterwards.
template <class A, class B, int FM>
__device__ __forceinline__ void multiply_boxes(float* acc, unsigned tile_a, unsigned tile_b, int group, bool accumulate) {
  constexpr int n = B::extent;
  using OfA = typename A::Boxes;
  using OfB = typename B::Boxes;
  const unsigned long long a = OfA::descriptor(tile_a + unsigned(16 * OfA::advance(0, 64)) * unsigned(group));
  const unsigned long long b = OfB::descriptor(tile_b);
#pragma unroll
  for (int step = 0; step < A::depth / 16; ++step) {
#pragma unroll
    for (int i = 0; i < FM; ++i) {
      ptx::Wgmma<typename A::T, n>::template multiply<OfA::major, OfB::major>(
          *reinterpret_cast<float(*)[n / 2]>(acc + i * (n / 2)), a + OfA::advance(step, 64 * A::groups * i),
          b + OfB::advance(step, 0), accumulate || step > 0);
    }
  }
}

// Like multiply_boxes, but a is in registers: pairs of elements, ordered by step along k, then by fragment.
template <class T, class B, int FM>
__device__ __forceinline__ void multiply_registers(float* acc, unsigned* a, unsigned tile_b, bool accumulate) {
  constexpr int n = B::extent;
  using OfB = typename B::Boxes;
  const unsigned long long b = OfB::descriptor(tile_b);
#pragma unroll
  for (int step = 0; step < B::depth / 16; ++step) {
#pragma unroll
    for (int i = 0; i < FM; ++i) {
      ptx::WgmmaOfRegisters<T, n>::template multiply<OfB::major>(
          *reinterpret_cast<float(*)[n / 2]>(acc + i * (n / 2)), *reinterpret_cast<unsigned(*)[4]>(a + (step * FM + i) * 4),
          b + OfB::advance(step, 0), accumulate || step > 0);
    }
  }
}

// Loads the fragments of operand a from a tile into registers: all that a warp needs, in the order of the
// multiplication's k-steps. Rows: number of rows of a multiplication; each of four warps has a quarter of them.
template <class A, int Rows = 64>
__device__ __forceinline__ void load_box_fragments(unsigned* x, unsigned tile, int warp) {
  constexpr int halves = Rows / 64, fragments = A::fragments * halves;
#pragma unroll
  for (int step = 0; step < A::depth / 16; ++step) {
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
      const int row = i / halves * A::groups * Rows + warp * (Rows / 4) + i % halves * 16;
      load_fragment<typename A::T, typename A::Boxes>(*reinterpret_cast<unsigned(*)[4]>(x + (step * fragments + i) * 4), tile,
                                                      row, step);
    }
  }
  ptx::fence_async_proxy();  // orders these reads before TMA's next writes
}

}  // namespace autosched::tile
