// For tcgen05.mma: the kind by type, the instruction descriptor and matrix descriptors (PTX ISA 9.7.16.4).
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/ptx/tcgen05.cuh>
#include <autosched/ptx/tcgen05_block_scale.cuh>

namespace autosched {

// Values in the instruction descriptor: `code` for the operand type, `sums` for the accumulator type.
template <class T>
struct Tcgen05Type;
template <>
struct Tcgen05Type<f16> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::f16;
  static constexpr unsigned code = 0, sums = 1;
};
template <>
struct Tcgen05Type<bf16> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::f16;
  static constexpr unsigned code = 1, sums = 1;
};
template <>
struct Tcgen05Type<float> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::tf32;
  static constexpr unsigned code = 2, sums = 1;
};
template <>
struct Tcgen05Type<e4m3> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::f8f6f4;
  static constexpr unsigned code = 0, sums = 1;
};
template <>
struct Tcgen05Type<e5m2> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::f8f6f4;
  static constexpr unsigned code = 1, sums = 1;
};
template <>
struct Tcgen05Type<e2m1x2> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::mxf4;
  static constexpr unsigned code = 1, sums = 0;
};
template <>
struct Tcgen05Type<signed char> {
  static constexpr ptx::Tcgen05Kind kind = ptx::Tcgen05Kind::i8;
  static constexpr unsigned code = 1, sums = 2;
};

// Instruction descriptor for M x N sums and matrices of type T. MajorA, MajorB: 1 if a tile is contiguous along m or n,
// 0 if it is contiguous along k.
template <class T, int M, int N, int MajorA, int MajorB>
inline constexpr unsigned tcgen05_instruction = Tcgen05Type<T>::sums << 4 | Tcgen05Type<T>::code << 7 |
                                                Tcgen05Type<T>::code << 10 | unsigned(MajorA) << 15 |
                                                unsigned(MajorB) << 16 | unsigned(N / 8) << 17 | unsigned(M / 16) << 24;

// The instruction's kind for type T. Scales: number of scales of a row for each 32 bytes along k; 0 without scales.
template <class T, int Scales>
inline constexpr ptx::Tcgen05Kind tcgen05_kind = Scales == 1   ? ptx::Tcgen05Kind::mxf8f6f4
                                                 : Scales == 2 ? ptx::Tcgen05Kind::mxf4
                                                 : Scales == 4 ? ptx::Tcgen05Kind::mxf4nvf4
                                                               : Tcgen05Type<T>::kind;

// Instruction descriptor with block scales. The scales begin at byte `first` of a word. In one multiplication, every
// line of an operand has `Scales` scales. The type of the scales is ue4m3 if there are four, and ue8m0 if there are one
// or two. Both matrices are contiguous along k.
template <class T, int M, int N, int Scales>
__device__ __forceinline__ constexpr unsigned tcgen05_scaled_instruction(int first) {
  return unsigned(first) << 4 | Tcgen05Type<T>::code << 7 | Tcgen05Type<T>::code << 10 | unsigned(N / 8) << 17 |
         unsigned(Scales != 4) << 23 | unsigned(M / 16) << 24 | unsigned(first) << 29;
}
// Descriptor of 512 bytes of scales in shared memory: lines of 16 bytes in groups of eight, which are 128 bytes apart.
__device__ __forceinline__ unsigned long long tcgen05_scales(unsigned address) {
  return (address >> 4 & 0x3fffu) | 8ull << 32 | 1ull << 46;
}

// Descriptor of a tile with the layout of wgmma. It differs from wgmma's descriptor in one bit. In a pair of blocks,
// the upper bits of an address are the rank of the block. The mask removes them.
template <class Operand>
__device__ __forceinline__ unsigned long long tcgen05_matrix(unsigned address) {
  return Operand::descriptor(address & 0x3ffff) | 1ull << 46;
}

}  // namespace autosched
