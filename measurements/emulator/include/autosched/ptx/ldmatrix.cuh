// Host twin of ldmatrix (runtime/matrix.cpp).
#pragma once

namespace autosched::ptx {

inline void ldmatrix_x1(unsigned (&r)[1], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 1, false, address, site);
}
inline void ldmatrix_x1_trans(unsigned (&r)[1], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 1, true, address, site);
}
inline void ldmatrix_x2(unsigned (&r)[2], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 2, false, address, site);
}
inline void ldmatrix_x2_trans(unsigned (&r)[2], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 2, true, address, site);
}
inline void ldmatrix_x4(unsigned (&r)[4], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 4, false, address, site);
}
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address, Site site = Site::current()) {
  emulator::ldmatrix(r, 4, true, address, site);
}

}  // namespace autosched::ptx
