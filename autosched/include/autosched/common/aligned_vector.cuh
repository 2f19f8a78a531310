// AlignedVector, the unit of every memory access: 1 to 16 bytes, aligned to their own size.
#pragma once

namespace autosched {

// Storage types of 16-bit floats, which only hold bits. Arithmetic is in f32, after a conversion by ptx/convert.cuh.
struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
// Two f16 in a register; the first one is in the lower half.
enum class f16x2 : unsigned {};

// 8-bit floats with 4 or 5 exponent bits (OCP 8-bit Floating Point Specification, revision 1.0).
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};
// Two 4-bit floats; the first one is in the lower half (OCP Microscaling Formats Specification, revision 1.0).
struct e2m1x2 {
  unsigned char bits;
};

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

template <bool Condition, class Yes, class No>
struct Conditional {
  using type = Yes;
};
template <class Yes, class No>
struct Conditional<false, Yes, No> {
  using type = No;
};
template <bool Condition, class Yes, class No>
using conditional = typename Conditional<Condition, Yes, No>::type;

template <int Bytes>
struct alignas(Bytes) AlignedVector {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "an aligned vector is 1, 2, 4, 8 or 16 bytes");
  unsigned word[Bytes / 4];
};
template <>
struct alignas(2) AlignedVector<2> {
  unsigned short half;
};
template <>
struct alignas(1) AlignedVector<1> {
  unsigned char byte;
};

}  // namespace autosched
