// Host twin: a hint changes no value, so each is the plain access (runtime/global_memory.cpp).
#pragma once
#include <autosched/common/aligned_vector.cuh>

namespace autosched::ptx {

#define AUTOSCHED_LD_GLOBAL_NC(NAME, HINT)                                        \
  template <int Bytes>                                                            \
  inline AlignedVector<Bytes> NAME(const void* address, Site site = Site::current()) {   \
    AlignedVector<Bytes> p;                                                              \
    emulator::load_global(&p, address, Bytes, emulator::GlobalLoad::read_only, site); \
    return p;                                                                     \
  }
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_no_allocate, ".L1::no_allocate")
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_evict_first, ".L1::evict_first")
AUTOSCHED_LD_GLOBAL_NC(ld_global_nc_no_allocate_l2_256b, ".L1::no_allocate.L2::256B")
#undef AUTOSCHED_LD_GLOBAL_NC

template <int Bytes>
inline void st_global_cs(void* address, const AlignedVector<Bytes>& p, Site site = Site::current()) {
  emulator::store_global(address, &p, Bytes, site);
}

}  // namespace autosched::ptx
