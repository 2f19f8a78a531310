// Host twin: every access is looked up among the launch's buffers (runtime/global_memory.cpp).
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

template <int Bytes>
inline AlignedVector<Bytes> ld_global_nc(const void* address, Site site = Site::current()) {
  AlignedVector<Bytes> p;
  emulator::load_global(&p, address, Bytes, emulator::GlobalLoad::read_only, site);
  return p;
}
template <int Bytes>
inline AlignedVector<Bytes> ld_global_cg(const void* address, Site site = Site::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "ld.global.cg is used for 4, 8 and 16 bytes");
  AlignedVector<Bytes> p;
  emulator::load_global(&p, address, Bytes, emulator::GlobalLoad::l2, site);
  return p;
}
template <int Bytes>
inline void st_global(void* address, const AlignedVector<Bytes>& p, Site site = Site::current()) {
  emulator::store_global(address, &p, Bytes, site);
}
inline unsigned atomic_add(unsigned* address, unsigned value, Site site = Site::current()) {
  return emulator::atomic_add_u32(address, value, site);
}
inline void fence_gpu(Site site = Site::current()) { emulator::fence_gpu(site); }

}  // namespace autosched::ptx
