// Host twin of wmma. Fragments are this emulator's own arrangement (runtime/matrix.cpp), unlike that of mma.sync and
// different for each operand and order, so that a kernel that relies on one computes wrong numbers here.
#pragma once

namespace autosched::ptx {

enum class Major { row, col };

#define AUTOSCHED_WMMA_LOAD(NAME, OPERAND, TYPE, REGISTERS)                                                            \
  template <Major Order>                                                                                               \
  inline void NAME(unsigned (&r)[REGISTERS], unsigned address, unsigned stride, Site site = Site::current()) {         \
    emulator::wmma_load(emulator::Multiplicand::TYPE, emulator::WmmaOperand::OPERAND, Order == Major::row, r, address, \
                        stride, site);                                                                                 \
  }
AUTOSCHED_WMMA_LOAD(wmma_load_a_m16n16k16_f16, a, f16, 8)
AUTOSCHED_WMMA_LOAD(wmma_load_b_m16n16k16_f16, b, f16, 8)
AUTOSCHED_WMMA_LOAD(wmma_load_a_m16n16k16_bf16, a, bf16, 4)
AUTOSCHED_WMMA_LOAD(wmma_load_b_m16n16k16_bf16, b, bf16, 4)
AUTOSCHED_WMMA_LOAD(wmma_load_a_m16n16k8_tf32, a, tf32, 4)
AUTOSCHED_WMMA_LOAD(wmma_load_b_m16n16k8_tf32, b, tf32, 4)
#undef AUTOSCHED_WMMA_LOAD

#define AUTOSCHED_WMMA_MMA(NAME, TYPE, REGISTERS)                                                      \
  template <Major A, Major B>                                                                          \
  inline void NAME(float (&d)[8], const unsigned (&a)[REGISTERS], const unsigned (&b)[REGISTERS],      \
                   Site site = Site::current()) {                                                      \
    emulator::wmma_mma(emulator::Multiplicand::TYPE, A == Major::row, B == Major::row, d, a, b, site); \
  }
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k16_f16, f16, 8)
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k16_bf16, bf16, 4)
AUTOSCHED_WMMA_MMA(wmma_mma_m16n16k8_tf32, tf32, 4)
#undef AUTOSCHED_WMMA_MMA

inline void wmma_store_d_m16n16k16_f32(unsigned address, const float (&d)[8], unsigned stride,
                                       Site site = Site::current()) {
  emulator::wmma_store_d(address, d, stride, site);
}
inline void wmma_store_d_m16n16k8_f32(unsigned address, const float (&d)[8], unsigned stride,
                                      Site site = Site::current()) {
  emulator::wmma_store_d(address, d, stride, site);
}

}  // namespace autosched::ptx
