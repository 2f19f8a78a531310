// Host twin: every access is checked against the window and its shadow (runtime/shared_memory.cpp).
#pragma once
#include <autosched/common/packet.cuh>

namespace autosched::ptx {

inline unsigned shared_memory() { return emulator::shared_memory(); }

template <int Bytes>
inline Packet<Bytes> ld_shared(unsigned address, Site site = Site::current()) {
  Packet<Bytes> p;
  emulator::load_shared(&p, address, Bytes, site);
  return p;
}
template <int Bytes>
inline void st_shared(unsigned address, const Packet<Bytes>& p, Site site = Site::current()) {
  emulator::store_shared(address, &p, Bytes, site);
}

}  // namespace autosched::ptx
