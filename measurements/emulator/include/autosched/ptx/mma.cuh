// Host twin of mma.sync (runtime/matrix.cpp).
#pragma once

namespace autosched::ptx {

inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             Site site = Site::current()) {
  emulator::mma_m16n8(emulator::Multiplicand::f16, d, a, b, site);
}
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              Site site = Site::current()) {
  emulator::mma_m16n8(emulator::Multiplicand::bf16, d, a, b, site);
}
inline void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             Site site = Site::current()) {
  emulator::mma_m16n8(emulator::Multiplicand::tf32, d, a, b, site);
}

}  // namespace autosched::ptx
