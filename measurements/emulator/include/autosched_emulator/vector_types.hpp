// CUDA's vector types: float4 and the like, aligned as on the device (CUDA Programming Guide, Built-in Vector Types).
// They have no operators there either.
#pragma once
#include <autosched_emulator/runtime.hpp>

using size_t = decltype(sizeof(0));
using uint3 = autosched::emulator::Index3;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#define AUTOSCHED_VECTORS_124(NAME, T)                                                      \
  struct NAME##1 {                                                                          \
    T x;                                                                                    \
  };                                                                                        \
  struct __attribute__((aligned(2 * sizeof(T)))) NAME##2 {                                  \
    T x, y;                                                                                 \
  };                                                                                        \
  struct __attribute__((aligned(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16))) NAME##4 {        \
    T x, y, z, w;                                                                           \
  };                                                                                        \
  constexpr NAME##1 make_##NAME##1(T x) { return {x}; }                                     \
  constexpr NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                             \
  constexpr NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                     \
  constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define AUTOSCHED_VECTORS(NAME, T) \
  struct NAME##3 {                 \
    T x, y, z;                     \
  };                               \
  AUTOSCHED_VECTORS_124(NAME, T)

AUTOSCHED_VECTORS(char, signed char)
AUTOSCHED_VECTORS(uchar, unsigned char)
AUTOSCHED_VECTORS(short, short)
AUTOSCHED_VECTORS(ushort, unsigned short)
AUTOSCHED_VECTORS(int, int)
AUTOSCHED_VECTORS_124(uint, unsigned)
AUTOSCHED_VECTORS(long, long)
AUTOSCHED_VECTORS(ulong, unsigned long)
AUTOSCHED_VECTORS(longlong, long long)
AUTOSCHED_VECTORS(ulonglong, unsigned long long)
AUTOSCHED_VECTORS(float, float)
AUTOSCHED_VECTORS(double, double)

#undef AUTOSCHED_VECTORS
#undef AUTOSCHED_VECTORS_124
