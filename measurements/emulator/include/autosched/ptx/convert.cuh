// Host twin of cvt (autosched_emulator/convert.hpp).
#pragma once
#include <autosched_emulator/convert.hpp>

namespace autosched::ptx {

inline float cvt_f32_f16(unsigned short x) { return emulator::f32_of_f16(x); }
inline float cvt_f32_bf16(unsigned short x) { return emulator::f32_of_bf16(x); }
inline unsigned short cvt_rn_f16_f32(float x) { return emulator::f16_of_f32(x); }
inline unsigned short cvt_rn_bf16_f32(float x) { return emulator::bf16_of_f32(x); }
inline unsigned cvt_rna_tf32(unsigned f32_bits) { return emulator::tf32_of_f32(f32_bits); }
inline unsigned bits_of(float x) { return emulator::to_bits(x); }
inline float float_of(unsigned bits) { return emulator::from_bits(bits); }

}  // namespace autosched::ptx
