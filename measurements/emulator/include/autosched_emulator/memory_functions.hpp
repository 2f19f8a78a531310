// CUDA's atomics, load and store variants, and fences, for plain pointers to global or shared memory.
//
// Threads take turns, so that nothing comes between reading and writing. Others run before each atomic: a thread may
// wait for one of its block in a loop of atomics.
#pragma once
#include <autosched_emulator/runtime.hpp>

namespace autosched::emulator {

template <class T>
struct Value {  // keeps a parameter out of the deduction of T
  using type = T;
};
template <class T>
using value = typename Value<T>::type;

template <class T, class New>
inline T read_modify_write(T* address, Site site, New updated) {
  take_turn(site);
  const T old = *address;
  *address = updated(old);
  return old;
}

}  // namespace autosched::emulator

// atomicAdd and its forms for a block and for the system, which differ only between blocks that run at a time.
#define AUTOSCHED_ATOMIC(NAME, NEW)                                                                      \
  template <class T>                                                                                     \
  inline T NAME(T* address, autosched::emulator::value<T> operand,                                       \
                autosched::emulator::Site site = autosched::emulator::Site::current()) {                 \
    return autosched::emulator::read_modify_write(address, site, [operand](T old) -> T { return NEW; }); \
  }
#define AUTOSCHED_ATOMICS(NAME, NEW)   \
  AUTOSCHED_ATOMIC(NAME, NEW)          \
  AUTOSCHED_ATOMIC(NAME##_block, NEW)  \
  AUTOSCHED_ATOMIC(NAME##_system, NEW)
AUTOSCHED_ATOMICS(atomicAdd, old + operand)
AUTOSCHED_ATOMICS(atomicSub, old - operand)
AUTOSCHED_ATOMICS(atomicExch, operand)
AUTOSCHED_ATOMICS(atomicMin, operand < old ? operand : old)
AUTOSCHED_ATOMICS(atomicMax, old < operand ? operand : old)
AUTOSCHED_ATOMICS(atomicAnd, old & operand)
AUTOSCHED_ATOMICS(atomicOr, old | operand)
AUTOSCHED_ATOMICS(atomicXor, old ^ operand)
AUTOSCHED_ATOMICS(atomicInc, old >= operand ? T(0) : old + T(1))
AUTOSCHED_ATOMICS(atomicDec, old == T(0) || old > operand ? operand : old - T(1))
#undef AUTOSCHED_ATOMICS
#undef AUTOSCHED_ATOMIC

template <class T>
inline T atomicCAS(T* address, autosched::emulator::value<T> compare, autosched::emulator::value<T> operand,
                   autosched::emulator::Site site = autosched::emulator::Site::current()) {
  return autosched::emulator::read_modify_write(
      address, site, [compare, operand](T old) -> T { return old == compare ? operand : old; });
}

#define AUTOSCHED_LOAD(NAME)            \
  template <class T>                    \
  inline T NAME(const T* address) {     \
    return *address;                    \
  }
#define AUTOSCHED_STORE(NAME)                                               \
  template <class T>                                                        \
  inline void NAME(T* address, autosched::emulator::value<T> stored) { \
    *address = stored;                                                      \
  }
AUTOSCHED_LOAD(__ldg)
AUTOSCHED_LOAD(__ldca)
AUTOSCHED_LOAD(__ldcg)
AUTOSCHED_LOAD(__ldcs)
AUTOSCHED_LOAD(__ldcv)
AUTOSCHED_LOAD(__ldlu)
AUTOSCHED_STORE(__stcg)
AUTOSCHED_STORE(__stcs)
AUTOSCHED_STORE(__stwb)
AUTOSCHED_STORE(__stwt)
#undef AUTOSCHED_LOAD
#undef AUTOSCHED_STORE

inline void __threadfence_block() { asm volatile("" ::: "memory"); }
inline void __threadfence() { __threadfence_block(); }
inline void __threadfence_system() { __threadfence_block(); }
