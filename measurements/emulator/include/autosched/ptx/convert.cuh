// Host twin of cvt. NaN becomes the canonical NaN of the target type, as on the device.
#pragma once

namespace autosched::ptx {

inline unsigned bits_of(float x) { return __float_as_uint(x); }
inline float float_of(unsigned bits) { return __uint_as_float(bits); }

inline float cvt_f32_f16(unsigned short x) {
  const unsigned sign = (x & 0x8000u) << 16, magnitude = x & 0x7fffu;
  if (magnitude > 0x7c00u) return float_of(0x7fffffffu);
  if (magnitude == 0x7c00u) return float_of(sign | 0x7f800000u);
  // As an f32 with the bias of f16 kept, then scaled by 2^112: exact, subnormal values included.
  return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}
inline float cvt_f32_bf16(unsigned short x) { return float_of(static_cast<unsigned>(x) << 16); }

inline unsigned short cvt_rn_f16_f32(float x) {
  const unsigned bits = bits_of(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);  // 65520 and more: infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 an f16 is a multiple of 2^-24; adding 0.5 leaves that multiple, rounded to even, in the mantissa.
    return static_cast<unsigned short>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
  }
  const unsigned nearest_even = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<unsigned short>(sign | ((nearest_even - 0x38000000u) >> 13));
}
inline unsigned short cvt_rn_bf16_f32(float x) {
  const unsigned bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline unsigned cvt_rna_tf32(unsigned f32_bits) {
  const unsigned magnitude = f32_bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffffffu;
  if (magnitude == 0x7f800000u) return f32_bits;
  return (f32_bits + 0x1000u) & 0xffffe000u;
}

}  // namespace autosched::ptx
