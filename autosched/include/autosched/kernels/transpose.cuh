// out[b, j, i] = x[b, i, j], batched. A block copies tiles_per_block tiles, one after another.
//
// With copy "cp.async", tiles are copied to shared memory (TileCopy), `stages` tiles ahead, and stored from there. With
// "ld.global", a thread loads a block of block_rows x vector_x elements to registers. If block_rows > 1, it transposes
// the block in registers, so that it can store adjacent elements of rows of out. The elements then go through shared
// memory, as with "cp.async". Only with layout "none", the transposed blocks are stored directly to out: a thread
// stores the elements that it loads (XeTile RFC, appendix 2.3), and no shared memory is needed.
//
// Layout maps (row, column) of the tile of x to an offset in shared memory. Loads and stores each have their own grid
// of threads (a wg_map whose subgroups are threads). The columns of the grid for loads are along the contiguous
// dimension of x, those of the grid for stores along that of out. Vectors divide the contiguous extents, so that each
// vector is completely inside or outside of an array.
//
// Config: the parameters and attributes of search_spaces/templates/transpose/space.py, and Word, Layout (void if layout
// is "none"), rows, columns, batch, element_bytes.
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/choice.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/tile_copy.cuh>
#include <autosched/ptx/barrier.cuh>

namespace autosched {

// Returns word w of a vector; vectors of 1 and 2 bytes are in the low bits of a single word.
template <int Bytes>
__device__ __forceinline__ unsigned vector_word(const AlignedVector<Bytes>& p, int w) {
  if constexpr (Bytes == 1) {
    return p.byte;
  } else if constexpr (Bytes == 2) {
    return p.half;
  } else {
    return p.word[w];
  }
}

// Returns bytes i * Part to (i + 1) * Part - 1 of a vector.
template <int Part, int Bytes>
__device__ __forceinline__ AlignedVector<Part> vector_part(const AlignedVector<Bytes>& p, int i) {
  AlignedVector<Part> out;
  if constexpr (Part >= 4) {
#pragma unroll
    for (int w = 0; w < Part / 4; ++w) out.word[w] = p.word[i * (Part / 4) + w];
  } else {
    const unsigned bits = vector_word(p, i * Part / 4) >> (8 * (i * Part % 4));
    if constexpr (Part == 2) {
      out.half = static_cast<unsigned short>(bits);
    } else {
      out.byte = static_cast<unsigned char>(bits);
    }
  }
  return out;
}

// Returns a vector that is concatenated from pieces of Part bytes. parts(i) returns piece i.
template <int Bytes, int Part, class Parts>
__device__ __forceinline__ AlignedVector<Bytes> vector_of(const Parts& parts) {
  if constexpr (Bytes == Part) {
    return parts(0);
  } else if constexpr (Part >= 4) {
    AlignedVector<Bytes> out;
#pragma unroll
    for (int i = 0; i < Bytes / Part; ++i) {
      const AlignedVector<Part> part = parts(i);
#pragma unroll
      for (int w = 0; w < Part / 4; ++w) out.word[i * (Part / 4) + w] = part.word[w];
    }
    return out;
  } else if constexpr (Bytes == 2) {
    return {static_cast<unsigned short>(vector_word(parts(0), 0) | vector_word(parts(1), 0) << 8)};
  } else {
    AlignedVector<Bytes> out;
    constexpr int per_word = 4 / Part;
#pragma unroll
    for (int w = 0; w < Bytes / 4; ++w) {
      out.word[w] = 0u;
#pragma unroll
      for (int i = 0; i < per_word; ++i) {
        out.word[w] |= vector_word(parts(w * per_word + i), 0) << (8 * Part * i);
      }
    }
    return out;
  }
}

template <class C>
struct Transpose {
  using Element = AlignedVector<C::element_bytes>;
  using Layout = typename C::Layout;
  static constexpr int element_bytes = C::element_bytes;
  static constexpr int threads = C::threads;
  static constexpr long long matrix = static_cast<long long>(C::rows) * C::columns;
  static constexpr bool async = C::copy_x == "cp.async", in_registers = C::layout_x == "none";

  // Loads have blocks of block_rows x vector_x elements, stores have lines of vector_out elements.
  static constexpr int load_bytes = C::vector_x * element_bytes, store_bytes = C::vector_out * element_bytes;
  static constexpr int block_bytes = C::block_rows * element_bytes;
  static constexpr int load_rows = threads / C::copy_columns_x, store_rows = threads / C::copy_columns_out;
  static constexpr int load_step_m = load_rows * C::block_rows, load_step_n = C::copy_columns_x * C::vector_x;
  static constexpr int load_passes_m = C::tile_m / load_step_m, load_passes_n = C::tile_n / load_step_n;
  static constexpr int store_step_m = C::copy_columns_out * C::vector_out;
  static constexpr int store_passes_m = C::tile_m / store_step_m, store_passes_n = C::tile_n / store_rows;

  static_assert(threads % C::copy_columns_x == 0 && C::tile_m % load_step_m == 0 && C::tile_n % load_step_n == 0,
                "rule load_map: the blocks of all threads must divide the tile");
  static_assert(in_registers || (threads % C::copy_columns_out == 0 && C::tile_n % store_rows == 0 &&
                                 C::tile_m % store_step_m == 0),
                "rule store_map: the vectors of all threads must divide the transposed tile");
  static_assert(C::columns % C::vector_x == 0, "rule load_alignment: the vector must divide the columns of x");
  static_assert(C::rows % C::vector_out == 0, "rule store_alignment: the vector must divide the columns of out");
  static_assert(load_bytes <= 16 && store_bytes <= 16 && block_bytes <= 16,
                "rule vector_width: a thread moves at most 16 bytes at a time");
  static_assert(!in_registers ||
                    (C::vector_out == C::block_rows && C::copy_columns_x * C::copy_columns_out == 32),
                "rule in_register: a thread stores the elements that it loads, so vector_out must equal block_rows");
  static_assert(!async || C::block_rows == 1, "rule block_rows: cp.async cannot transpose blocks");
  static_assert(!async || !in_registers, "rule copy_async: cp.async needs a shared-memory layout");
  static_assert(async || C::stages == 1, "rule stages: several stages need cp.async");
  static_assert(C::row_tiles * static_cast<long long>(C::tile_m) >= C::rows &&
                    C::column_tiles * static_cast<long long>(C::tile_n) >= C::columns &&
                    C::blocks * static_cast<long long>(C::tiles_per_block) >= C::tiles,
                "the blocks must cover x");

  struct Tile {
    const Element* x;  // start of the matrix
    Element* out;
    int m, n;  // origin of the tile in x
  };

  __device__ static __forceinline__ Tile tile_of(const Element* x, Element* out, int id) {
    constexpr int per_matrix = C::row_tiles * C::column_tiles;
    const TileIndex at =
        raster<raster_order(C::raster), raster_group(C::raster), C::row_tiles, C::column_tiles>(id % per_matrix);
    const long long first = id / per_matrix * matrix;
    return {x + first, out + first, at.m * C::tile_m, at.n * C::tile_n};
  }

  // This thread's blocks of a tile. All loads are issued before the first use, so that they are in flight together.
  struct Blocks {
    AlignedVector<load_bytes> line[load_passes_m][load_passes_n][C::block_rows];

    __device__ static __forceinline__ int row(int i) {
      return int(threadIdx.x) / C::copy_columns_x * C::block_rows + i * load_step_m;
    }
    __device__ static __forceinline__ int column(int j) {
      return int(threadIdx.x) % C::copy_columns_x * C::vector_x + j * load_step_n;
    }
    __device__ __forceinline__ void load(const Tile& tile) {
      // One address suffices, because the other vectors are at constant distances.
      const Element* from = tile.x + static_cast<long long>(tile.m + row(0)) * C::columns + tile.n + column(0);
#pragma unroll
      for (int i = 0; i < load_passes_m; ++i) {
#pragma unroll
        for (int r = 0; r < C::block_rows; ++r) {
          const bool row_ok = C::rows % C::tile_m == 0 || tile.m + row(i) + r < C::rows;
#pragma unroll
          for (int j = 0; j < load_passes_n; ++j) {
            const bool ok = row_ok && (C::columns % C::tile_n == 0 || tile.n + column(j) < C::columns);
            const long long ahead = static_cast<long long>(i * load_step_m + r) * C::columns + j * load_step_n;
            line[i][j][r] = AlignedVector<load_bytes>{};
            if (ok) line[i][j][r] = load_read_only<load_hint(C::cache_hint_x), load_bytes>(from + ahead);
          }
        }
      }
    }
    // Returns column c of block (i, j): block_rows adjacent elements of a row of out.
    __device__ __forceinline__ AlignedVector<block_bytes> turned(int i, int j, int c) const {
      return vector_of<block_bytes, element_bytes>([&](int r) { return vector_part<element_bytes>(line[i][j][r], c); });
    }
  };

  __device__ static __forceinline__ unsigned address(unsigned shared, int row, int column) {
    return shared + unsigned(Layout::offset(row, column)) * unsigned(element_bytes);
  }

  __device__ static __forceinline__ void fill(const Tile& tile, unsigned shared) {
    if constexpr (async) {
      using Copy = TileCopy<Element, Layout, C::tile_m, C::tile_n, C::rows, C::columns, true, threads,
                            C::copy_columns_x, C::vector_x, C::load_piece, true>;
      Copy(tile.x, tile.m, tile.n, int(threadIdx.x)).start(shared);
    } else {
      Blocks blocks;
      blocks.load(tile);
#pragma unroll
      for (int i = 0; i < load_passes_m; ++i) {
#pragma unroll
        for (int j = 0; j < load_passes_n; ++j) {
          const int row = Blocks::row(i), column = Blocks::column(j);
          if constexpr (C::block_rows == 1) {
#pragma unroll
            for (int c = 0; c < C::vector_x; c += C::load_piece) {
              ptx::st_shared(address(shared, row, column + c),
                             vector_part<C::load_piece * element_bytes>(blocks.line[i][j][0], c / C::load_piece));
            }
          } else {
#pragma unroll
            for (int c = 0; c < C::vector_x; ++c) {
              ptx::st_shared(address(shared, row, column + c), blocks.turned(i, j, c));
            }
          }
        }
      }
    }
  }

  // Rows of out are columns of the tile. All loads of a group of rows precede the group's stores, so that they are in
  // flight together. The size of a group is limited by the registers that its vectors and addresses need.
  __device__ static __forceinline__ void drain(const Tile& tile, unsigned shared) {
    constexpr int piece_bytes = C::store_piece * element_bytes;
    constexpr int row_registers =
        store_passes_m * C::vector_out / C::store_piece * (piece_bytes < 4 ? 1 : piece_bytes / 4);
    constexpr int group =
        row_registers * store_passes_n <= 32 ? store_passes_n : (row_registers < 32 ? 32 / row_registers : 1);
    static_assert(store_passes_n % group == 0, "tiles, threads and vectors must be powers of two");
    const int row = int(threadIdx.x) % C::copy_columns_out * C::vector_out;
    const int column = int(threadIdx.x) / C::copy_columns_out;
#pragma unroll 1
    for (int first = 0; first < store_passes_n; first += group) {
      // One address suffices, because the other vectors are at constant distances.
      Element* to =
          tile.out + static_cast<long long>(tile.n + column + first * store_rows) * C::rows + tile.m + row;
      AlignedVector<store_bytes> held[group][store_passes_m];
#pragma unroll
      for (int j = 0; j < group; ++j) {
#pragma unroll
        for (int i = 0; i < store_passes_m; ++i) {
          held[j][i] = vector_of<store_bytes, piece_bytes>([&](int part) {
            const int m = row + i * store_step_m + part * C::store_piece, n = column + (first + j) * store_rows;
            return ptx::ld_shared<piece_bytes>(address(shared, m, n));
          });
        }
      }
#pragma unroll
      for (int j = 0; j < group; ++j) {
        const int n = tile.n + column + (first + j) * store_rows;
#pragma unroll
        for (int i = 0; i < store_passes_m; ++i) {
          const int m = tile.m + row + i * store_step_m;
          const bool ok = (C::columns % C::tile_n == 0 || n < C::columns) &&
                          (C::rows % C::tile_m == 0 || m < C::rows);
          const long long ahead = static_cast<long long>(j * store_rows) * C::rows + i * store_step_m;
          if (ok) store<store_hint(C::cache_hint_out)>(to + ahead, held[j][i]);
        }
      }
    }
  }

  __device__ static __forceinline__ void through_registers(const Tile& tile) {
    Blocks blocks;
    blocks.load(tile);
    Element* to = tile.out + static_cast<long long>(tile.n + Blocks::column(0)) * C::rows + tile.m + Blocks::row(0);
#pragma unroll
    for (int j = 0; j < load_passes_n; ++j) {
#pragma unroll
      for (int c = 0; c < C::vector_x; ++c) {
        const int n = tile.n + Blocks::column(j) + c;
#pragma unroll
        for (int i = 0; i < load_passes_m; ++i) {
          const int m = tile.m + Blocks::row(i);
          if ((C::columns % C::tile_n == 0 || n < C::columns) && (C::rows % C::tile_m == 0 || m < C::rows)) {
            store<store_hint(C::cache_hint_out)>(
                to + static_cast<long long>(j * load_step_n + c) * C::rows + i * load_step_m, blocks.turned(i, j, c));
          }
        }
      }
    }
  }

  __device__ static __forceinline__ void run(const Element* x, Element* out) {
    const int first = int(blockIdx.x) * C::tiles_per_block;
    const int left = C::tiles - first;
    const int count = left < C::tiles_per_block ? left : C::tiles_per_block;
    if constexpr (in_registers) {
#pragma unroll 1
      for (int t = 0; t < count; ++t) through_registers(tile_of(x, out, first + t));
    } else {
      const unsigned shared = ptx::shared_memory();
      constexpr int ahead = C::stages - 1;
#pragma unroll
      for (int t = 0; t < ahead; ++t) {
        if (t < count) fill(tile_of(x, out, first + t), shared + t * C::stage_bytes);
        ptx::cp_async_commit_group();
      }
#pragma unroll 1
      for (int t = 0; t < count; ++t) {
        if (t > 0) ptx::barrier_sync();  // all threads have read the stage that is filled next
        if (t + ahead < count) {
          fill(tile_of(x, out, first + t + ahead), shared + (t + ahead) % C::stages * C::stage_bytes);
        }
        if constexpr (async) {
          ptx::cp_async_commit_group();
          ptx::cp_async_wait_group<ahead>();
        }
        ptx::barrier_sync();
        drain(tile_of(x, out, first + t), shared + t % C::stages * C::stage_bytes);
      }
    }
  }
};

template <class Config>
__device__ __forceinline__ void transpose(const typename Config::Word* x, typename Config::Word* out) {
  using Element = typename Transpose<Config>::Element;
  Transpose<Config>::run(reinterpret_cast<const Element*>(x), reinterpret_cast<Element*>(out));
}

}  // namespace autosched
