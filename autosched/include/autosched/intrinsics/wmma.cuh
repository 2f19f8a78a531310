// wmma (PTX ISA 9.7.14.4). T is f16 or bf16 (m16n16k16) or float, multiplied as tf32 (m16n16k8).
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/mma/wmma.cuh>

namespace autosched {

template <class T>
struct Wmma {
  using Sum = float;
  static constexpr int m = 16, n = 16, k = sizeof(T) == 4 ? 8 : 16;
  static constexpr int operand_registers = is_same<T, f16> ? 8 : 4;
  static constexpr int b_group = 1;
  static constexpr bool opaque = true;  // the positions of accumulators are unknown; only wmma.store can read them
  static constexpr int c_registers = 8;
  struct FragmentA {
    unsigned x[operand_registers];
  };
  struct FragmentB {
    unsigned x[operand_registers];
  };
  struct FragmentC {
    float x[8];
  };

  // tf32 operands must be rounded. This is possible although the mapping of elements is unknown, because all elements
  // are treated alike.
  __device__ static __forceinline__ void round_operands(unsigned (&x)[operand_registers]) {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < operand_registers; ++i) x[i] = ptx::cvt_rna_tf32(x[i]);
    }
  }

  // Operand defines Layout, `order` (row or column major) and `leading_dimension` (in elements).
  template <class Operand>
  __device__ static __forceinline__ void load_a(FragmentA& a, unsigned tile, int row, int rows, int depth, int) {
    const unsigned address = tile + unsigned(Operand::Layout::offset(row + rows, depth)) * unsigned(sizeof(T));
    if constexpr (is_same<T, f16>) {
      ptx::wmma_load_a_m16n16k16_f16<Operand::order>(a.x, address, Operand::leading_dimension);
    } else if constexpr (is_same<T, bf16>) {
      ptx::wmma_load_a_m16n16k16_bf16<Operand::order>(a.x, address, Operand::leading_dimension);
    } else {
      ptx::wmma_load_a_m16n16k8_tf32<Operand::order>(a.x, address, Operand::leading_dimension);
    }
    round_operands(a.x);
  }
  template <class Operand, int Group>
  __device__ static __forceinline__ void load_b(FragmentB* b, unsigned tile, int depth, int col, int cols, int) {
    const unsigned address = tile + unsigned(Operand::Layout::offset(depth, col + cols)) * unsigned(sizeof(T));
    if constexpr (is_same<T, f16>) {
      ptx::wmma_load_b_m16n16k16_f16<Operand::order>(b->x, address, Operand::leading_dimension);
    } else if constexpr (is_same<T, bf16>) {
      ptx::wmma_load_b_m16n16k16_bf16<Operand::order>(b->x, address, Operand::leading_dimension);
    } else {
      ptx::wmma_load_b_m16n16k8_tf32<Operand::order>(b->x, address, Operand::leading_dimension);
    }
    round_operands(b->x);
  }
  template <class A, class B>
  __device__ static __forceinline__ void multiply(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    if constexpr (is_same<T, f16>) {
      ptx::wmma_mma_m16n16k16_f16<A::order, B::order>(c.x, a.x, b.x);
    } else if constexpr (is_same<T, bf16>) {
      ptx::wmma_mma_m16n16k16_bf16<A::order, B::order>(c.x, a.x, b.x);
    } else {
      ptx::wmma_mma_m16n16k8_tf32<A::order, B::order>(c.x, a.x, b.x);
    }
  }
  __device__ static __forceinline__ void store_c(unsigned address, const FragmentC& c, unsigned stride) {
    if constexpr (sizeof(T) == 4) {
      ptx::wmma_store_d_m16n16k8_f32(address, c.x, stride);
    } else {
      ptx::wmma_store_d_m16n16k16_f32(address, c.x, stride);
    }
  }
};

}  // namespace autosched
