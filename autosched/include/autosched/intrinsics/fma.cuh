// CUDA-core arithmetic in the form of a warp-wide intrinsic. A warp has ThreadsM x ThreadsN threads, each of which
// computes ElementsM x ElementsN outputs. There is one multiply-add per output and k, in f32, or in i32 for i8.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class T, int ThreadsM, int ThreadsN, int ElementsM, int ElementsN>
struct Fma {
  static_assert(ThreadsM * ThreadsN == 32, "a warp has 32 threads");
  static constexpr int m = ThreadsM * ElementsM, n = ThreadsN * ElementsN, k = 1;
  static constexpr int b_group = 1;        // number of fragments of B per load
  static constexpr bool opaque = false;    // the coordinates of accumulators are known, unlike with wmma
  static constexpr int c_registers = ElementsM * ElementsN;
  static constexpr int c_run = ElementsN;  // number of adjacent accumulators of a thread along n
  using Number = typename Element<T>::Sum;
  using Sum = Number;
  struct FragmentA {
    Number x[ElementsM];
  };
  struct FragmentB {
    Number x[ElementsN];
  };
  struct FragmentC {
    Number x[c_registers];
  };

  __device__ static __forceinline__ int c_row(int lane, int run) { return lane / ThreadsN * ElementsM + run; }
  __device__ static __forceinline__ int c_col(int lane, int) { return lane % ThreadsN * ElementsN; }

  // Operand must define Layout, and `vector`: the number of contiguous elements along m (or n) in shared memory.
  template <class Operand>
  __device__ static __forceinline__ void load_a(FragmentA& a, unsigned tile, int row, int rows, int depth, int lane) {
    constexpr int vector = Operand::vector < ElementsM ? Operand::vector : ElementsM;
#pragma unroll
    for (int e = 0; e < ElementsM; e += vector) {
      const int at = Operand::Layout::offset(row + rows + lane / ThreadsN * ElementsM + e, depth);
      const auto packet = ptx::ld_shared<vector * int(sizeof(T))>(tile + unsigned(at) * unsigned(sizeof(T)));
#pragma unroll
      for (int i = 0; i < vector; ++i) a.x[e + i] = get_element<T>(packet, i);
    }
  }
  template <class Operand, int Group>
  __device__ static __forceinline__ void load_b(FragmentB* b, unsigned tile, int depth, int col, int cols, int lane) {
    constexpr int vector = Operand::vector < ElementsN ? Operand::vector : ElementsN;
#pragma unroll
    for (int e = 0; e < ElementsN; e += vector) {
      const int at = Operand::Layout::offset(depth, col + cols + lane % ThreadsN * ElementsN + e);
      const auto packet = ptx::ld_shared<vector * int(sizeof(T))>(tile + unsigned(at) * unsigned(sizeof(T)));
#pragma unroll
      for (int i = 0; i < vector; ++i) b->x[e + i] = get_element<T>(packet, i);
    }
  }
  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
#pragma unroll
    for (int i = 0; i < ElementsM; ++i) {
#pragma unroll
      for (int j = 0; j < ElementsN; ++j) {
        c.x[i * ElementsN + j] = multiply_add(a.x[i], b.x[j], c.x[i * ElementsN + j]);
      }
    }
  }
};

}  // namespace autosched
