// Choice: a compile-time constant for the value of a text parameter, such as copy = "cp.async". Kernels compare it with
// texts.
#pragma once

namespace autosched {

struct Choice {
  char text[48];

  template <int Size>
  __host__ __device__ constexpr Choice(const char (&literal)[Size]) : text{} {
    static_assert(Size <= 48, "the name of a choice is too long");
    for (int i = 0; i < Size; ++i) text[i] = literal[i];
  }
  template <int Size>
  __host__ __device__ constexpr bool operator==(const char (&other)[Size]) const {
    for (int i = 0; i < Size; ++i) {
      if (text[i] != other[i]) return false;
    }
    return true;
  }
  template <int Size>
  __host__ __device__ constexpr bool operator!=(const char (&other)[Size]) const {
    return !(*this == other);
  }
  template <int Size>
  __host__ __device__ constexpr bool starts_with(const char (&other)[Size]) const {
    for (int i = 0; i + 1 < Size; ++i) {
      if (text[i] != other[i]) return false;
    }
    return true;
  }
};

}  // namespace autosched
