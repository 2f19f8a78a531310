// Atomic updates of elements in memory, by many threads in any order.
#pragma once
#include <autosched/tile/values.cuh>

namespace autosched::tile {

// Replaces the value at `to` by f(value), and returns the old value. Retries if another thread has changed the value in
// the meantime.
template <class T, class F>
__device__ __forceinline__ auto combine(T* to, const F& f) {
  using Bits = conditional<sizeof(T) == 2, unsigned short, unsigned>;
  Bits* const address = reinterpret_cast<Bits*>(to);
  Bits old = ptx::ld_relaxed(address);
  while (true) {
    const Bits seen = ptx::compare_and_swap(address, old, static_cast<Bits>(round_to<T>(f(Element<T>::of(old)))));
    if (seen == old) return Element<T>::of(seen);
    old = seen;
  }
}

// Adds x[0], ... to the V (1 or 2) elements of f16 or bf16 at `to`. Native: the GPU has a red instruction for the type.
template <class T, int V, bool Native>
__device__ __forceinline__ void add_halves(T* to, const float* x) {
  if constexpr (V == 2) {
    if constexpr (!Native) {
      unsigned* const address = reinterpret_cast<unsigned*>(to);
      unsigned old = ptx::ld_relaxed(address);
      while (true) {
        const float low = add(Element<T>::of(old & 0xffffu), rounded<T>(x[0]));
        const float high = add(Element<T>::of(old >> 16), rounded<T>(x[1]));
        const unsigned seen = ptx::compare_and_swap(address, old, packed<T>(low, high));
        if (seen == old) return;
        old = seen;
      }
    } else if constexpr (is_same<T, f16>) {
      ptx::reduce_add_f16x2(to, packed<T>(x[0], x[1]));
    } else {
      ptx::reduce_add_bf16x2(to, packed<T>(x[0], x[1]));
    }
  } else if constexpr (!Native) {
    const float added = rounded<T>(x[0]);
    combine(to, [&](float y) { return add(y, added); });
  } else if constexpr (is_same<T, f16>) {
    ptx::reduce_add_f16(to, static_cast<unsigned short>(round_to<T>(x[0])));
  } else {
    ptx::reduce_add_bf16(to, static_cast<unsigned short>(round_to<T>(x[0])));
  }
}

}  // namespace autosched::tile
