// CUDA's barriers, shuffles, votes and warp reductions (CUDA Programming Guide, C++ Language Extensions).
#pragma once
#include <autosched_emulator/runtime.hpp>

#define AUTOSCHED_SITE autosched::emulator::Site site = autosched::emulator::Site::current()

inline void __syncthreads(AUTOSCHED_SITE) {
  autosched::emulator::barrier_sync(0, autosched::emulator::all_threads, site);
}
inline int __syncthreads_count(int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::barrier_count(predicate != 0, site);
}
inline int __syncthreads_or(int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::barrier_count(predicate != 0, site) != 0;
}
inline int __syncthreads_and(int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::barrier_count(predicate == 0, site) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, AUTOSCHED_SITE) { autosched::emulator::sync_lanes(mask, site); }
inline unsigned __activemask(AUTOSCHED_SITE) { return autosched::emulator::active_lanes(site); }

inline unsigned __ballot_sync(unsigned mask, int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::vote(mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::vote(mask, predicate != 0, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, AUTOSCHED_SITE) {
  return autosched::emulator::vote(mask, predicate == 0, site) == 0;
}

namespace autosched::emulator {

template <class T>
unsigned long long lane_bits(T value) {
  static_assert(sizeof(T) <= 8, "a shuffle moves values of at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T shuffled(LaneShuffle mode, unsigned mask, T value, int operand, int width, Site site) {
  const unsigned long long bits = shuffle_lanes(mode, mask, lane_bits(value), operand, width, site);
  T result;
  __builtin_memcpy(&result, &bits, sizeof(T));
  return result;
}
// Combines the values of the lanes in `mask`, lowest lane first.
template <class T, class Combine>
T reduced(unsigned mask, T value, Site site, Combine combine) {
  int lane = __builtin_ctz(mask);
  T result = shuffled(LaneShuffle::index, mask, value, lane, 32, site);
  for (unsigned left = mask & (mask - 1); left != 0; left &= left - 1) {
    result = combine(result, shuffled(LaneShuffle::index, mask, value, __builtin_ctz(left), 32, site));
  }
  return result;
}

}  // namespace autosched::emulator

#define AUTOSCHED_SHUFFLE(NAME, MODE)                                                                             \
  template <class T>                                                                                              \
  inline T NAME(unsigned mask, T value, int operand, int width = 32, AUTOSCHED_SITE) {                            \
    return autosched::emulator::shuffled(autosched::emulator::LaneShuffle::MODE, mask, value, operand, width, site); \
  }
AUTOSCHED_SHUFFLE(__shfl_sync, index)
AUTOSCHED_SHUFFLE(__shfl_up_sync, up)
AUTOSCHED_SHUFFLE(__shfl_down_sync, down)
AUTOSCHED_SHUFFLE(__shfl_xor_sync, butterfly)
#undef AUTOSCHED_SHUFFLE

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, AUTOSCHED_SITE) {
  return autosched::emulator::match_lanes(mask, autosched::emulator::lane_bits(value), site);
}

#define AUTOSCHED_REDUCTION(NAME, RESULT)                                                               \
  template <class T>                                                                                    \
  inline T NAME(unsigned mask, T value, AUTOSCHED_SITE) {                                               \
    return autosched::emulator::reduced(mask, value, site, [](T a, T b) -> T { return RESULT; });       \
  }
AUTOSCHED_REDUCTION(__reduce_add_sync, a + b)
AUTOSCHED_REDUCTION(__reduce_min_sync, b < a ? b : a)
AUTOSCHED_REDUCTION(__reduce_max_sync, a < b ? b : a)
AUTOSCHED_REDUCTION(__reduce_and_sync, a & b)
AUTOSCHED_REDUCTION(__reduce_or_sync, a | b)
AUTOSCHED_REDUCTION(__reduce_xor_sync, a ^ b)
#undef AUTOSCHED_REDUCTION
#undef AUTOSCHED_SITE

// The time of the emulated machine: it has none, but a loop that waits for some of it to pass must end.
inline long long clock64() {
  static long long ticks = 0;
  return ticks += 100;
}
inline int clock() { return static_cast<int>(clock64()); }
inline void __nanosleep(unsigned, autosched::emulator::Site site = autosched::emulator::Site::current()) {
  autosched::emulator::take_turn(site);
}
[[noreturn]] inline void __trap() { __builtin_trap(); }
