// ldmatrix + mma.sync (PTX ISA 9.7.14.5). T is f16 or bf16 (m16n8k16), or float, which is multiplied as tf32 (m16n8k8).
// Fragments of 8-bit types are loaded in the same way, but multiplied by intrinsics/mma_8_bit.cuh (m16n8k32). If Sum is
// f16x2, products of f16 are accumulated in f16, and K may also be 8 (m16n8k8).
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/mma/ldmatrix.cuh>
#include <autosched/ptx/mma/mma.cuh>

namespace autosched {

template <class T, class Sum_ = typename Element<T>::Sum, int K = 32 / int(sizeof(T))>
struct MmaSync {
  using Sum = Sum_;
  static constexpr int m = 16, n = 8, k = K;
  static constexpr int matrix_k = 16 / int(sizeof(T));  // number of columns of an 8-row matrix of ldmatrix
  static constexpr int matrices_k = k / matrix_k;       // 1 or 2
  static constexpr int b_group = 2;                     // one ldmatrix fills two fragments of B
  static constexpr bool opaque = false;
  static constexpr int c_registers = 4;
  static constexpr int c_run = 2;
  struct FragmentA {
    unsigned x[2 * matrices_k];
  };
  struct FragmentB {
    unsigned x[matrices_k];
  };
  struct FragmentC {
    Sum x[c_registers / sums_of_register<Sum>];
  };

  __device__ static __forceinline__ int c_row(int lane, int run) { return lane / 4 + 8 * run; }
  __device__ static __forceinline__ int c_col(int lane, int) { return lane % 4 * 2; }

  template <int Count>
  __device__ static __forceinline__ void round_operands(unsigned (&x)[Count]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < Count; ++i) x[i] = ptx::cvt_rna_tf32(x[i]);
    }
  }

  // Coordinates of the 16-byte row whose address this lane passes to ldmatrix. An ldmatrix loads these matrices of 8
  // rows, in order:
  // - of A: rows 0-7 and rows 8-15 of the first half of k, then the same rows of the second half
  // - of B: the first and the second half of k of columns 0-7, then the same halves of columns 8-15
  // If Operand::transposed, the 16-byte rows in shared memory are along m or n, and ldmatrix.trans transposes the
  // matrices.
  template <class Operand>
  __host__ __device__ static constexpr int a_row(int lane) {
    return lane / 8 % 2 * 8 + (Operand::transposed ? 0 : lane % 8);
  }
  template <class Operand>
  __host__ __device__ static constexpr int a_depth(int lane) {
    const int second = lane / 16 % matrices_k;
    return Operand::transposed ? second * 8 + lane % 8 : second * matrix_k;
  }
  template <class Operand, int Group>
  __host__ __device__ static constexpr int b_depth(int lane) {
    const int second = lane / 8 % matrices_k;
    return Operand::transposed ? second * 8 + lane % 8 : second * matrix_k;
  }
  template <class Operand, int Group>
  __host__ __device__ static constexpr int b_col(int lane) {
    return lane / 8 % (matrices_k * Group) / matrices_k * 8 + (Operand::transposed ? 0 : lane % 8);
  }

  template <class Operand>
  __device__ static __forceinline__ unsigned address_of(unsigned tile, int row, int col, int rows, int cols) {
    if constexpr (has_addresses<Operand>) {
      return Operand::address(tile, row, col, rows, cols);
    } else {
      return tile + Operand::offset(row, col, rows, cols);
    }
  }

  // Loads the fragment of A that begins `rows` rows after the warp's first row `row`, at position `depth` along k.
  template <class Operand>
  __device__ static __forceinline__ void load_a(FragmentA& a, unsigned tile, int row, int rows, int depth, int lane) {
    static_assert(!Operand::transposed || sizeof(T) == 2, "rule layout_a: ldmatrix.trans supports only 16-bit elements");
    const unsigned address = address_of<Operand>(tile, row + a_row<Operand>(lane), a_depth<Operand>(lane), rows, depth);
    load_matrices<Operand::transposed>(a.x, address);
    if constexpr (!keeps_bits<Operand>) round_operands(a.x);
  }

  // Loads b[0] (eight columns, starting `cols` columns after the warp's first column `col`) and, with a Group of 2,
  // b[1] (the next eight columns).
  template <class Operand, int Group>
  __device__ static __forceinline__ void load_b(FragmentB* b, unsigned tile, int depth, int col, int cols, int lane) {
    const unsigned address =
        address_of<Operand>(tile, b_depth<Operand, Group>(lane), col + b_col<Operand, Group>(lane), depth, cols);
    unsigned x[Group * matrices_k];
    load_matrices<Operand::transposed>(x, address);
    if constexpr (!keeps_bits<Operand>) round_operands(x);
#pragma unroll
    for (int i = 0; i < Group * matrices_k; ++i) b[i / matrices_k].x[i % matrices_k] = x[i];
  }

  template <bool Transposed, int Count>
  __device__ static __forceinline__ void load_matrices(unsigned (&x)[Count], unsigned address) {
    if constexpr (Count == 4) {
      Transposed ? ptx::ldmatrix_x4_trans(x, address) : ptx::ldmatrix_x4(x, address);
    } else if constexpr (Count == 2) {
      Transposed ? ptx::ldmatrix_x2_trans(x, address) : ptx::ldmatrix_x2(x, address);
    } else {
      Transposed ? ptx::ldmatrix_x1_trans(x, address) : ptx::ldmatrix_x1(x, address);
    }
  }

  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    if constexpr (k == 8 && is_same<T, f16>) {
      ptx::mma_m16n8k8_f16(c.x, a.x, b.x);
    } else if constexpr (is_same<T, f16>) {
      ptx::mma_m16n8k16_f16(c.x, a.x, b.x);
    } else if constexpr (is_same<T, bf16>) {
      ptx::mma_m16n8k16_bf16(c.x, a.x, b.x);
    } else {
      ptx::mma_m16n8k8_tf32(c.x, a.x, b.x);
    }
  }
};

}  // namespace autosched
