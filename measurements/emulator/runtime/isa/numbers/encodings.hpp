// Conversions between number formats by bit operations. As in cvt, NaN becomes the canonical NaN of the target format;
// a NaN rounded to tf32 is truncated, as on an H100.
#pragma once

namespace autosched::emulator {

inline float from_bits(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned to_bits(float x) { return __builtin_bit_cast(unsigned, x); }

inline float f32_of_f16(unsigned short x) {
  const unsigned sign = (x & 0x8000u) << 16, magnitude = x & 0x7fffu;
  // The bits of the f16 are interpreted as an f32 with the wrong exponent bias, then scaled by 2^112, which is exact
  // even for subnormals. There are no branches, so that compilers vectorise the function.
  const unsigned finite = sign | to_bits(from_bits(magnitude << 13) * 0x1p112f);
  const unsigned endless = magnitude > 0x7c00u ? 0x7fffffffu : sign | 0x7f800000u;
  return from_bits(magnitude < 0x7c00u ? finite : endless);
}

inline float f32_of_bf16(unsigned short x) { return from_bits(static_cast<unsigned>(x) << 16); }

// Rounds to nearest, ties to even.
inline unsigned short f16_of_f32(float x) {
  const unsigned bits = to_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // An f16 below 2^-14 is a multiple of 2^-24. The addition of 0.5 rounds to the nearest multiple (ties to even). The
  // mantissa of the sum contains this multiple.
  const unsigned small = to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  const unsigned normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
  const unsigned finite = magnitude < 0x38800000u ? small : normal;
  const unsigned large = magnitude >= 0x477ff000u ? 0x7c00u : finite;  // 65520 and larger values become infinity
  return static_cast<unsigned short>(magnitude > 0x7f800000u ? 0x7fffu : sign | large);
}

// Rounds to nearest, ties to even.
inline unsigned short bf16_of_f32(float x) {
  const unsigned bits = to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Rounds to nearest, ties away from zero. The result is an f32 whose low 13 bits are zero.
inline unsigned tf32_of_f32(unsigned bits) {
  const unsigned magnitude = bits & 0x7fffffffu;
  return (magnitude < 0x7f800000u ? bits + 0x1000u : bits) & 0xffffe000u;
}

}  // namespace autosched::emulator
