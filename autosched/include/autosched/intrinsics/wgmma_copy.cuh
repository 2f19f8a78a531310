// Operands of wgmma that threads copy by cp.async, into the same boxes as TMA.
#pragma once
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched {

// Copies a tile of `Operand` (a WgmmaOperand) with `Threads` threads. The source is one of several consecutive
// matrices, each with `Height` lines of `Width` elements. Lines are aligned to `Access` bytes. Elements outside of the
// matrix are zero. Anywhere: tiles may begin at any line.
//
// cp.async copies aligned pieces of 4, 8 or 16 bytes. If lines have a smaller alignment (`shifts`), each line is copied
// from the word that contains its first element, and `finish` shifts it later. Such a copy has one word more than a
// line of a box. This word is stored in `ends`.
template <class T, class Operand, int Width, int Height, int Access, int Threads, bool Anywhere = false>
struct WgmmaCopy {
  static_assert(Access == 1 || Access == 2 || Access == 4 || Access == 8 || Access == 16,
                "rule alignment: cp.async needs aligned lines");
  static constexpr bool shifts = Access < 4;
  static constexpr int piece = shifts ? 4 : Access;  // number of bytes that a thread copies per instruction
  static constexpr int pieces_of_line = Operand::line / piece;
  // All threads together copy contiguous bytes of a box. In each pass they copy the same columns of some lines.
  static constexpr int pass_bytes = Threads * piece, lines_of_pass = Threads / pieces_of_line;
  static constexpr int passes = (Operand::box_bytes + pass_bytes - 1) / pass_bytes;
  // a multiple of the swizzle's period
  static constexpr int period = pass_bytes < 1024 ? 1024 : pass_bytes, repeats = period / pass_bytes;
  static constexpr int ends_bytes = shifts ? Operand::boxes * Operand::lines * 4 : 0;
  static constexpr long long pitch = static_cast<long long>(Width) * int(sizeof(T)), matrix_bytes = pitch * Height;
  // true if the shift of a line depends on the matrix
  static constexpr bool shifts_differ = shifts && matrix_bytes % 4 != 0;
  static_assert(pitch % Access == 0, "rule alignment: all lines must be aligned");
  static_assert(Threads % pieces_of_line == 0 && period % pass_bytes == 0 && period % 1024 == 0,
                "rule threads: each pass must copy whole lines");

  // This thread's position in the first pass of each box.
  int start, line, piece_of_line;

  __device__ __forceinline__ explicit WgmmaCopy(int thread)
      : start(thread * piece), line(thread / pieces_of_line), piece_of_line(thread % pieces_of_line) {}

  __device__ __forceinline__ bool last_of_line() const { return piece_of_line == pieces_of_line - 1; }
  __device__ __forceinline__ bool in_box(int pass) const {
    return Operand::box_bytes % pass_bytes == 0 || start + pass * pass_bytes < Operand::box_bytes;
  }
  // Offset in bytes, within a box, of the piece that this thread copies in a pass (PTX ISA 5.5.6, "Swizzling modes").
  __device__ __forceinline__ unsigned at(int pass) const {
    const unsigned linear = unsigned(start + pass % repeats * pass_bytes);
    return (linear ^ ((linear >> 7 & (Operand::line / 16 - 1)) << 4)) + unsigned(pass / repeats * period);
  }
  // Offset in bytes, within an aligned word, of the start of the line that this thread copies in a pass. A tile begins
  // at a multiple of 4 lines, so its position does not affect the offset.
  __device__ __forceinline__ int shift(int pass, int matrix) const {
    if constexpr (!shifts) return 0;
    const int lines = (line + pass * lines_of_pass) * int(pitch % 4);
    return (shifts_differ ? lines + matrix * int(matrix_bytes % 4) : lines) & 3;
  }
  __device__ static __forceinline__ int between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }

  // Starts to copy the tile at (x0, y0) of a matrix to shared address `to`. x0 is a position in a line, y0 is a line.
  __device__ __forceinline__ void begin(const T* matrices, int matrix, unsigned to, unsigned ends, int x0, int y0) const {
    const char* from = reinterpret_cast<const char*>(matrices) + matrix * matrix_bytes + (y0 + line) * pitch +
                       x0 * int(sizeof(T)) + piece_of_line * piece;
    const int lines_left = Height - y0 - line;
    int bytes_left = (Width - x0) * int(sizeof(T)) - piece_of_line * piece;  // remaining bytes of the line
#pragma unroll 1
    for (int box = 0; box < Operand::boxes; ++box) {
#pragma unroll 4
      for (int pass = 0; pass < passes; ++pass) {
        if (!in_box(pass)) break;
        const bool inside = (!Anywhere && Height % Operand::lines == 0) || pass * lines_of_pass < lines_left;
        const int shifted = shift(pass, matrix), left = inside ? bytes_left + shifted : 0;
        // any valid address, because the copy reads 0 bytes
        const char* source = from + pass * lines_of_pass * pitch - shifted;
        const int source_bytes = between(0, left, piece);
        if constexpr (piece == 16) {
          // bypasses L1, because the data is not read again by this SM
          ptx::cp_async_cg(to + at(pass), source, source_bytes);
        } else {
          ptx::cp_async_ca<piece>(to + at(pass), source, source_bytes);
        }
        if constexpr (shifts) {
          if (last_of_line()) {
            ptx::cp_async_ca<4>(ends + unsigned((line + pass * lines_of_pass) * 4), source + 4, between(0, left - 4, 4));
          }
        }
      }
      from += Operand::line;
      bytes_left -= Operand::line;
      to += unsigned(Operand::box_bytes);
      ends += unsigned(Operand::lines * 4);
    }
  }

  // Starts to copy a tile of scattered lines, from column x0 on. Line i of the tile is row row_of(i) of the matrix. The
  // row may be outside of the matrix.
  template <class RowOf>
  __device__ __forceinline__ void begin_rows(const T* matrix, unsigned to, int x0, const RowOf& row_of) const {
    static_assert(!shifts, "rule access: cp.async copies at least 4 bytes");
    int rows[passes];  // load all row numbers before the first is used
#pragma unroll
    for (int pass = 0; pass < passes; ++pass) rows[pass] = in_box(pass) ? row_of(line + pass * lines_of_pass) : -1;
    const int line_offset = x0 * int(sizeof(T)) + piece_of_line * piece;
#pragma unroll 1
    for (int box = 0; box < Operand::boxes; ++box) {
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        if (!in_box(pass)) break;
        const int along = line_offset + box * Operand::line;
        const bool inside = unsigned(rows[pass]) < unsigned(Height);
        const char* from = reinterpret_cast<const char*>(matrix);
        if (inside) from += rows[pass] * pitch + along;
        const int source_bytes = inside ? between(0, Width * int(sizeof(T)) - along, piece) : 0;
        const unsigned address = to + unsigned(box * Operand::box_bytes) + at(pass);
        if constexpr (piece == 16) {
          ptx::cp_async_cg(address, from, source_bytes);
        } else {
          ptx::cp_async_ca<piece>(address, from, source_bytes);
        }
      }
    }
  }

  // Shifts the copied lines to their final position, after a wait for this thread's copies. All threads of a warp must
  // call it.
  __device__ __forceinline__ void finish(int matrix, unsigned to, unsigned ends) const {
    // number of words that a thread loads before it uses the first word
    constexpr int together = 8 < passes ? 8 : passes;
#pragma unroll 1
    for (int box = 0; box < Operand::boxes; ++box) {
#pragma unroll 1
      for (int first = 0; first < passes; first += together) {
        unsigned word[together], next[together];
#pragma unroll
        for (int i = 0; i < together; ++i) {
          if (!has_pass(first + i)) continue;
          word[i] = ptx::ld_shared<4>(to + at(first + i)).word[0];
          if (last_of_line()) {
            next[i] = ptx::ld_shared<4>(ends + unsigned((line + (first + i) * lines_of_pass) * 4)).word[0];
          }
        }
#pragma unroll
        for (int i = 0; i < together; ++i) {
          if (!has_pass(first + i)) continue;
          const unsigned neighbour = ptx::shfl_down(word[i], 1);
          const unsigned bytes = 0x3210u + 0x1111u * unsigned(shift(first + i, matrix));
          ptx::st_shared(to + at(first + i),
                         AlignedVector<4>{{__byte_perm(word[i], last_of_line() ? next[i] : neighbour, bytes)}});
        }
      }
      to += unsigned(Operand::box_bytes);
      ends += unsigned(Operand::lines * 4);
    }
  }

  // True if a pass is inside the box; warp-uniform.
  __device__ __forceinline__ bool has_pass(int pass) const {
    return (passes % (8 < passes ? 8 : passes) == 0 || pass < passes) && in_box(pass);
  }
};

}  // namespace autosched
