// Host twin: every access is checked against the window and its shadow (runtime/shared_memory.cpp).
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

inline unsigned shared_memory() { return emulator::shared_memory(); }

template <int Bytes>
inline AlignedVector<Bytes> ld_shared(unsigned address, Site site = Site::current()) {
  AlignedVector<Bytes> p;
  emulator::load_shared(&p, address, Bytes, site);
  return p;
}
template <int Bytes>
inline void st_shared(unsigned address, const AlignedVector<Bytes>& p, Site site = Site::current()) {
  emulator::store_shared(address, &p, Bytes, site);
}

}  // namespace autosched::ptx
