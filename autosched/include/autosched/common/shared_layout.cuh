// A tile's layout in shared memory: an injective function (row, col) -> element offset, as in
// search_spaces/layouts/shared_layout.py. The steps of the layout are applied in sequence to the linear offset.
#pragma once

namespace autosched {

// Inserts `Elements` elements after every `Lines` lines of `Line` elements. If a pad is the layout's first step,
// `first` is called instead of `apply`. It receives the line as a separate argument, so that constant differences of
// addresses become immediates.
template <int Elements, int Lines>
struct Pad {
  static constexpr int period = 0;
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
  // offsets that differ by a multiple of the period have the same xor
  static constexpr int period = 1 << (Base + Shift + Bits);
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
  static constexpr int line = Transposed ? Rows : Cols;  // number of elements of a contiguous line

  __host__ __device__ static constexpr int offset(int row, int col) {
    const int at_line = Transposed ? col : row, at = Transposed ? row : col;
    if constexpr (sizeof...(Steps) == 0) {
      return at_line * line + at;
    } else {
      return apply_steps<Steps...>(at_line, at);
    }
  }

  // For the element at the distance (rows, cols) from (row, col), offset(row + rows, col + cols) == (offset(row, col) ^
  // flips(rows, cols)) + adds(rows, cols). This requires that the linear offsets of (row, col) and of (rows, cols) have
  // no common set bit below `period`. The equation holds because a swizzle is linear over bits, and does not change
  // multiples of the period. So elements at distances with the same `flips` share one xor-ed address, and `adds` is an
  // immediate of their instructions.
  static constexpr bool splits = ((Steps::period > 0) && ...);
  __host__ __device__ static constexpr int period() {
    int longest = 1;
    ((longest = Steps::period > longest ? Steps::period : longest), ...);
    return longest;
  }
  __host__ __device__ static constexpr int linear(int row, int col) {
    return Transposed ? col * line + row : row * line + col;
  }
  __host__ __device__ static constexpr int low_bits(int row, int col) { return linear(row, col) & (period() - 1); }
  __host__ __device__ static constexpr int flips(int row, int col) {
    int x = low_bits(row, col);
    ((x = Steps::template apply<line>(x)), ...);
    return x;
  }
  __host__ __device__ static constexpr int adds(int row, int col) { return linear(row, col) & ~(period() - 1); }

 private:
  template <class First, class... Rest>
  __host__ __device__ static constexpr int apply_steps(int at_line, int at) {
    int x = First::template first<line>(at_line, at);
    ((x = Rest::template apply<line>(x)), ...);
    return x;
  }
};

// A tile of boxes as TMA writes them. The first box has the first Width elements of every line, the next box the next
// Width elements, and so on. Each box has the swizzle of this width. Distances are handled as in SharedLayout.
template <int Rows, int Cols, bool Transposed, int Width, class Swizzled>
struct BoxedLayout {
  static constexpr int lines = Transposed ? Cols : Rows;
  static constexpr bool splits = true;

  __host__ __device__ static constexpr int period() { return Swizzled::period; }
  __host__ __device__ static constexpr int linear(int row, int col) {
    const int at_line = Transposed ? col : row, at = Transposed ? row : col;
    return at / Width * (lines * Width) + at_line * Width + at % Width;
  }
  __host__ __device__ static constexpr int offset(int row, int col) {
    return Swizzled::template apply<Width>(linear(row, col));
  }
  __host__ __device__ static constexpr int low_bits(int row, int col) { return linear(row, col) & (period() - 1); }
  __host__ __device__ static constexpr int flips(int row, int col) {
    return Swizzled::template apply<Width>(low_bits(row, col));
  }
  __host__ __device__ static constexpr int adds(int row, int col) { return linear(row, col) - low_bits(row, col); }
};

// Returns the byte offset, in a tile, of element (row + rows, col + cols). (row, col) depends on the thread, while the
// distance (rows, cols) is constant after unrolling. `Split` requires that the linear offsets of (row, col) and of
// (rows, cols) have no common set bit below the layout's period. Then the byte offsets of both are computed separately.
template <class Layout, int Bytes, bool Split>
__device__ __forceinline__ unsigned byte_offset(int row, int col, int rows, int cols) {
  if constexpr (Split) {
    return unsigned(Layout::offset(row, col) ^ Layout::flips(rows, cols)) * Bytes +
           unsigned(Layout::adds(rows, cols)) * Bytes;
  } else {
    return unsigned(Layout::offset(row + rows, col + cols)) * Bytes;
  }
}

}  // namespace autosched
