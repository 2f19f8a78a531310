// A tile's place in shared memory: an injective function (row, col) -> element offset, the device form of
// search_spaces/layouts/shared_layout.py. Steps act one after another on the linear offset.
#pragma once

namespace autosched {

// m elements more after every n lines of `line` elements.
template <int Elements, int Lines>
struct Pad {
  template <int Line>
  __host__ __device__ static constexpr int apply(int x) {
    return x + x / (Line * Lines) * Elements;
  }
};

// CuTe's Swizzle<B, M, S>: bits [Base + Shift, Base + Shift + Bits) are xor-ed into bits [Base, Base + Bits).
template <int Bits, int Base, int Shift>
struct Swizzle {
  template <int Line>
  __host__ __device__ static constexpr int apply(int x) {
    return x ^ ((x >> Shift) & (((1 << Bits) - 1) << Base));
  }
};

template <int Rows, int Cols, bool Transposed, class... Steps>
struct SharedLayout {
  static constexpr int rows = Rows, cols = Cols;
  static constexpr int line = Transposed ? Rows : Cols;  // elements of a contiguous line

  __host__ __device__ static constexpr int offset(int row, int col) {
    int x = Transposed ? col * Rows + row : row * Cols + col;
    ((x = Steps::template apply<line>(x)), ...);
    return x;
  }
};

}  // namespace autosched
