// Block scales along k, for intrinsics that apply them. They are loaded from global memory to registers one k-tile
// ahead.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/global_memory.cuh>

namespace autosched {

// True if an intrinsic has block scales; `scales` is then the number of scales per row of its fragments.
template <class I>
__host__ __device__ constexpr auto scales_blocks(int) -> decltype(I::scales, true) {
  return true;
}
template <class I>
__host__ __device__ constexpr bool scales_blocks(long) {
  return false;
}

// Other types have no block scales.
struct NoBlockScales {
  struct Words {};
  __device__ __forceinline__ Words take() { return {}; }
};

// A word contains four consecutive scales of a line along k. In each lane, a register contains one word. Together, the
// lanes of a register hold the words of two fragments of A, or of four fragments of B. Lane l has the word of
// - row l / 4 + 8 (l % 2) of fragment l % 4 / 2 of A,
// - or column l / 4 of fragment l % 4 of B.
template <class C>
struct BlockScales {
  using I = typename C::Intrinsic;
  using Warp = WarpTile<C>;
  // steps of the intrinsic along k for which a word has scales
  static constexpr int steps_of_word = 4 / I::scales;
  static constexpr int words = C::tile_k / I::k / steps_of_word;  // words per line and k-tile
  static constexpr int groups_a = ceil_div(C::fragments_m, 2), groups_b = ceil_div(C::fragments_n, 4);
  static constexpr int blocks = C::scale_blocks;  // number of blocks per line of the matrix
  static constexpr bool tiled = C::scale_order == "tiled";
  static constexpr int line_words = ceil_div(blocks, 4);
  static constexpr int word_step = tiled ? 512 : 4;  // distance in bytes between consecutive words of a line
  static_assert(C::tile_k / I::k % steps_of_word == 0, "rule scale_words: a k-tile needs whole words of scales");

  struct Words {
    unsigned a[words][groups_a], b[words][groups_b];

    // Returns the scales of a step for a fragment of A or B, in the lowest bytes of the result.
    __device__ __forceinline__ unsigned of_a(int i, int step) const { return part(a[step / steps_of_word][i / 2], step); }
    __device__ __forceinline__ unsigned of_b(int j, int step) const { return part(b[step / steps_of_word][j / 4], step); }
    __device__ static __forceinline__ unsigned part(unsigned word, int step) {
      return word >> (step % steps_of_word * 8 * I::scales);
    }
  };

  const unsigned char* a[groups_a];
  const unsigned char* b[groups_b];
  int next;  // address of the next word of a line

  __device__ __forceinline__ BlockScales(const unsigned char* scale_a, const unsigned char* scale_b,
                                         const MatmulWork<C>& work)
      : next(work.first * words) {
    scale_a += work.batch * matrix_bytes(C::m);
    scale_b += work.batch * matrix_bytes(C::n);
    const int lane = work.lane();
#pragma unroll
    for (int i = 0; i < groups_a; ++i) {
      const int fragment = smaller(2 * i + lane % 4 / 2, C::fragments_m - 1);
      const int row = work.m0() + work.warp_m() * C::sg_data_m + Warp::fragment_row(fragment) + lane % 2 * 8 + lane / 4;
      a[i] = scale_a + line_at(smaller(row, C::m - 1));
    }
#pragma unroll
    for (int j = 0; j < groups_b; ++j) {
      const int fragment = smaller(4 * j + lane % 4, C::fragments_n - 1);
      const int col = work.n0() + work.warp_n() * C::sg_data_n + Warp::fragment_col(fragment) + lane / 4;
      b[j] = scale_b + line_at(smaller(col, C::n - 1));
    }
  }

  // True if every k-tile begins at a whole word of scales. A single load then reads a word, if its scales are
  // contiguous.
  static constexpr bool whole = blocks % (4 * words) == 0;
  static constexpr int together = tiled ? 1 : words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;

  // Loads the scales of the next k-tile. After the last k-tile, values are arbitrary and unused.
  __device__ __forceinline__ Words take() {
    const int at = whole ? smaller(next, line_words - words) : next;
    Words held;
#pragma unroll
    for (int i = 0; i < groups_a; ++i) load<groups_a>(held.a, i, a[i], at);
#pragma unroll
    for (int j = 0; j < groups_b; ++j) load<groups_b>(held.b, j, b[j], at);
    next += words;
    return held;
  }
  template <int Groups>
  __device__ static __forceinline__ void load(unsigned (&held)[words][Groups], int group, const unsigned char* line, int at) {
    line += static_cast<long long>(at) * word_step;
#pragma unroll
    for (int w = 0; w < words; w += whole ? together : 1) {
      if constexpr (whole) {
        const auto side_by_side = ptx::ld_global_nc<4 * together>(line + w * word_step);
#pragma unroll
        for (int i = 0; i < together; ++i) held[w + i][group] = side_by_side.word[i];
      } else {
        held[w][group] = word_of(line + w * word_step, blocks - 4 * (at + w));
      }
    }
  }

  __device__ static __forceinline__ int smaller(int x, int y) { return x < y ? x : y; }
  __device__ static constexpr long long matrix_bytes(int lines) {
    return tiled ? static_cast<long long>(ceil_div(lines, 128)) * line_words * 512 : static_cast<long long>(lines) * blocks;
  }
  __device__ static __forceinline__ long long line_at(int line) {
    if constexpr (tiled) {
      return static_cast<long long>(line / 128) * line_words * 512 + line % 32 * 16 + line % 128 / 32 * 4;
    } else {
      return static_cast<long long>(line) * blocks;
    }
  }
  // Loads a word of scales. Only its first `left` scales belong to the line. The other scales are set to zero, because
  // NaN would affect the result.
  __device__ static __forceinline__ unsigned word_of(const unsigned char* from, int left) {
    if (left <= 0) return 0;
    if constexpr (blocks % 4 == 0) {
      return ptx::ld_global_nc<4>(from).word[0];
    } else if constexpr (tiled) {
      const unsigned word = ptx::ld_global_nc<4>(from).word[0];
      return left >= 4 ? word : word & (1u << 8 * left) - 1;
    } else {
      unsigned word = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < left) word |= unsigned(ptx::ld_global_nc<1>(from + i).byte) << 8 * i;
      }
      return word;
    }
  }
};

template <class C>
using ScalesOf = conditional<scales_blocks<typename C::Intrinsic>(0), BlockScales<C>, NoBlockScales>;

}  // namespace autosched
