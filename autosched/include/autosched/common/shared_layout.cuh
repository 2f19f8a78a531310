// A tile's place in shared memory: an injective function (row, col) -> element offset, the device form of
// search_spaces/layouts/shared_layout.py. Steps act one after another on the linear offset.
#pragma once

namespace autosched {

// m elements more after every n lines of `line` elements. A first step knows its line, which leaves an address that is
// linear in it: constants between addresses are part of the instruction.
template <int Elements, int Lines>
struct Pad {
  template <int Line>
  __host__ __device__ static constexpr int apply(int x) {
    return x + int(unsigned(x) / unsigned(Line * Lines)) * Elements;
  }
  template <int Line>
  __host__ __device__ static constexpr int first(int at_line, int at) {
    return at_line * Line + at + int(unsigned(at_line) / unsigned(Lines)) * Elements;
  }
};

// CuTe's Swizzle<B, M, S>: bits [Base + Shift, Base + Shift + Bits) are xor-ed into bits [Base, Base + Bits).
template <int Bits, int Base, int Shift>
struct Swizzle {
  template <int Line>
  __host__ __device__ static constexpr int apply(int x) {
    return x ^ ((x >> Shift) & (((1 << Bits) - 1) << Base));
  }
  template <int Line>
  __host__ __device__ static constexpr int first(int at_line, int at) {
    return apply<Line>(at_line * Line + at);
  }
};

template <int Rows, int Cols, bool Transposed, class... Steps>
struct SharedLayout {
  static constexpr int rows = Rows, cols = Cols;
  static constexpr int line = Transposed ? Rows : Cols;  // elements of a contiguous line

  __host__ __device__ static constexpr int offset(int row, int col) {
    const int at_line = Transposed ? col : row, at = Transposed ? row : col;
    if constexpr (sizeof...(Steps) == 0) {
      return at_line * line + at;
    } else {
      return place<Steps...>(at_line, at);
    }
  }

 private:
  template <class First, class... Rest>
  __host__ __device__ static constexpr int place(int at_line, int at) {
    int x = First::template first<line>(at_line, at);
    ((x = Rest::template apply<line>(x)), ...);
    return x;
  }
};

}  // namespace autosched
