// Cache hints of memory accesses, chosen at compile time. They do not affect values.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/ptx/global_cache_hints.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

enum class LoadHint { none, no_allocate, evict_first, no_allocate_l2_256b };
enum class StoreHint { none, streaming };

// Converts the value of a parameter to a hint (search_spaces/templates/common/cache_hints.py).
__host__ __device__ constexpr LoadHint load_hint(const Choice& name) {
  return name == "no_allocate"           ? LoadHint::no_allocate
         : name == "evict_first"         ? LoadHint::evict_first
         : name == "no_allocate_l2_256b" ? LoadHint::no_allocate_l2_256b
                                         : LoadHint::none;
}
__host__ __device__ constexpr StoreHint store_hint(const Choice& name) {
  return name == "streaming" ? StoreHint::streaming : StoreHint::none;
}

template <LoadHint Hint, int Bytes>
__device__ __forceinline__ AlignedVector<Bytes> load_read_only(const void* address) {
  if constexpr (Hint == LoadHint::no_allocate) {
    return ptx::ld_global_nc_no_allocate<Bytes>(address);
  } else if constexpr (Hint == LoadHint::evict_first) {
    return ptx::ld_global_nc_evict_first<Bytes>(address);
  } else if constexpr (Hint == LoadHint::no_allocate_l2_256b) {
    return ptx::ld_global_nc_no_allocate_l2_256b<Bytes>(address);
  } else {
    return ptx::ld_global_nc<Bytes>(address);
  }
}

template <StoreHint Hint, int Bytes>
__device__ __forceinline__ void store(void* address, const AlignedVector<Bytes>& p) {
  if constexpr (Hint == StoreHint::streaming) {
    ptx::st_global_cs(address, p);
  } else {
    ptx::st_global(address, p);
  }
}

}  // namespace autosched
