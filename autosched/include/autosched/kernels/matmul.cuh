// C = epilogue(A * B): one block computes a tile_m x tile_n tile of C (of one split of K), staged through shared
// memory, with the loop of the XeTile RFC's appendix 2.4: cooperative loads of a later k-tile overlap the
// arithmetic of this one. With stream_k a block computes several tiles, and parts of the last ones.
//
// Config: the parameters and attributes of search_spaces/templates/matmul/space.py, and what its lowering.py adds:
//   problem    m, n, k, batch, order_a, order_b, scale, has_bias, activation, reduction,
//              and the types T (of A and B) and Out
//   Intrinsic  what multiplies fragments
//   operands   LayoutA, LayoutB; with _a and _b: copy_store (elements that a copy stores at a time), and how the
//              intrinsic reads the tile: access (vector, row, col, rows or trans), access_vector (its elements),
//              leading_dimension (0 where it has none)
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/common/tile_copy.cuh>
#include <autosched/intrinsics/fma.cuh>
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/intrinsics/wmma.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// What a reduction leaves besides C: one value for each of its rows, or for each of its columns.
enum class ReducedAxis { none, row, column };

__host__ __device__ constexpr ReducedAxis reduced_axis_of(const Choice& reduction) {
  return reduction.starts_with("row_")      ? ReducedAxis::row
         : reduction.starts_with("column_") ? ReducedAxis::column
                                            : ReducedAxis::none;
}

// The widest vector, of a power of two up to Most elements, that divides `extent`.
template <int Most>
__host__ __device__ constexpr int common_vector(int extent) {
  int vector = Most;
  while (extent % vector != 0) vector /= 2;
  return vector;
}

// How far fragment i of a warp begins behind the warp's first: round robin over sg_layout, sg_data at a time.
__host__ __device__ constexpr int fragment_at(int i, int size, int sg_layout, int sg_data) {
  const int each = sg_data / size;
  return i / each * sg_layout * sg_data + i % each * size;
}

// An operand in memory, how its tile is copied to shared memory, and how the intrinsic reads it there.
template <class C>
struct OperandA {
  using T = typename C::T;
  using Layout = typename C::LayoutA;
  static constexpr bool row_major = C::order_a == "row";
  static constexpr int stage_bytes = C::stage_bytes_a;
  static constexpr bool copy_async = C::copy_a == "cp.async";
  static constexpr bool transposed = C::access_a == "trans";
  static constexpr ptx::Major order = C::access_a == "col" ? ptx::Major::col : ptx::Major::row;
  static constexpr unsigned leading_dimension = C::leading_dimension_a;
  static constexpr int vector = C::access_vector_a;
  using Copy = TileCopy<T, Layout, row_major ? C::tile_m : C::tile_k, row_major ? C::tile_k : C::tile_m,
                        row_major ? C::m : C::k, row_major ? C::k : C::m, row_major, C::threads, C::copy_columns_a,
                        C::vector_a, C::copy_store_a, copy_async>;

  __host__ __device__ static constexpr bool splits() {
    using I = typename C::Intrinsic;
    if constexpr (Layout::splits && C::intrinsic.starts_with("mma_")) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * C::sg_layout_m; ++i) {
        const int row = i / 32 * C::sg_data_m + I::template a_row<OperandA>(i % 32);
        places |= Layout::low_bits(row, I::template a_depth<OperandA>(i % 32));
      }
      for (int i = 0; i < C::fragments_m; ++i) {
        const int rows = fragment_at(i, I::m, C::sg_layout_m, C::sg_data_m);
        for (int depth = 0; depth < C::tile_k; depth += I::k) steps |= Layout::low_bits(rows, depth);
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int row, int depth, int rows, int depths) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(row, depth, rows, depths);
  }
};

template <class C>
struct OperandB {
  using T = typename C::T;
  using Layout = typename C::LayoutB;
  static constexpr bool row_major = C::order_b == "row";
  static constexpr int stage_bytes = C::stage_bytes_b;
  static constexpr bool copy_async = C::copy_b == "cp.async";
  static constexpr bool transposed = C::access_b == "trans";
  static constexpr ptx::Major order = C::access_b == "col" ? ptx::Major::col : ptx::Major::row;
  static constexpr unsigned leading_dimension = C::leading_dimension_b;
  static constexpr int vector = C::access_vector_b;
  using Copy = TileCopy<T, Layout, row_major ? C::tile_k : C::tile_n, row_major ? C::tile_n : C::tile_k,
                        row_major ? C::k : C::n, row_major ? C::n : C::k, row_major, C::threads, C::copy_columns_b,
                        C::vector_b, C::copy_store_b, copy_async>;
  // Fragments that one load fills.
  static constexpr int group = C::sg_data_n / C::Intrinsic::n % C::Intrinsic::b_group == 0 ? C::Intrinsic::b_group : 1;

  __host__ __device__ static constexpr bool splits() {
    using I = typename C::Intrinsic;
    if constexpr (Layout::splits && C::intrinsic.starts_with("mma_")) {
      int places = 0, steps = 0;
      for (int i = 0; i < 32 * C::sg_layout_n; ++i) {
        const int col = i / 32 * C::sg_data_n + I::template b_col<OperandB, group>(i % 32);
        places |= Layout::low_bits(I::template b_depth<OperandB, group>(i % 32), col);
      }
      for (int j = 0; j < C::fragments_n; j += group) {
        const int cols = fragment_at(j, I::n, C::sg_layout_n, C::sg_data_n);
        for (int depth = 0; depth < C::tile_k; depth += I::k) steps |= Layout::low_bits(depth, cols);
      }
      return (places & steps) == 0;
    } else {
      return false;
    }
  }
  __device__ static __forceinline__ unsigned offset(int depth, int col, int depths, int cols) {
    return byte_offset<Layout, int(sizeof(T)), splits()>(depth, col, depths, cols);
  }
};

template <class Config>
struct Matmul {
  using C = Config;
  using I = typename C::Intrinsic;
  using A = OperandA<C>;
  using B = OperandB<C>;
  using T = typename C::T;
  using Out = typename C::Out;
  using Sum = typename Element<T>::Sum;
  static constexpr bool epilogue_shared = C::epilogue == "shared";
  static constexpr ReducedAxis reduced_axis = reduced_axis_of(C::reduction);
  // The shared route has the whole tile in f32 where a reduction reads it or only wmma.store knows the accumulators.
  static constexpr bool whole_tile = I::opaque || reduced_axis != ReducedAxis::none;

  static_assert(C::tile_m % (C::sg_layout_m * C::sg_data_m) == 0 && C::tile_n % (C::sg_layout_n * C::sg_data_n) == 0,
                "rule wg_map: sg_layout x sg_data must divide the workgroup tile");
  static_assert(C::sg_data_m % I::m == 0 && C::sg_data_n % I::n == 0 && C::tile_k % I::k == 0,
                "rule fragments: sg_data and tile_k must be multiples of the intrinsic's shape");
  static_assert(C::k_unroll >= 1 && C::tile_k / I::k % C::k_unroll == 0,
                "rule k_unroll: the unroll must divide the intrinsic steps of tile_k");
  static_assert(C::fragment_buffers == 1 || (A::copy_async && B::copy_async && C::stages >= 2),
                "rule fragment_copies: fragments of the next k-tile need cp.async and a stage that has landed");
  static_assert(C::fragment_buffers == 1 || (C::fragment_buffers == 2 && C::intrinsic.starts_with("mma_") &&
                                             C::tile_k / I::k % 2 == 0 && C::k_unroll == C::tile_k / I::k),
                "rule fragment_steps: two buffers of mma.sync's fragments alternate over an even, unrolled number of steps");
  static_assert(!I::opaque || epilogue_shared,
                "rule epilogue: wmma accumulators leave through shared memory only");
  static_assert(reduced_axis == ReducedAxis::none || epilogue_shared,
                "rule epilogue: a reduction finds C in shared memory");
  static_assert(C::stages >= 1 && C::stages <= 5, "rule stages: 1 to 5 pipeline stages");
  static_assert(C::threads == C::sg_layout_m * C::sg_layout_n * 32 && C::threads <= 1024,
                "rule threads: 32 of each subgroup, at most 1024 a block");
  static_assert(C::tiles_m * C::tile_m >= C::m && C::tiles_n * C::tile_n >= C::n && C::tiles_k * C::tile_k >= C::k,
                "rule tiles: the tiles must cover the matrices");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and together they have all of them");
  static_assert(C::stage_bytes == A::stage_bytes + B::stage_bytes && C::stages * C::stage_bytes <= C::shared_bytes,
                "rule shared_memory: the stages must fit into the block's shared memory");
  static_assert(!epilogue_shared || C::epilogue_bytes <= C::shared_bytes,
                "rule shared_memory: the tile of C must fit into the block's shared memory");

  static_assert(!C::stream_k || (C::intrinsic.starts_with("mma_") && reduced_axis == ReducedAxis::none),
                "rule stream_k_intrinsic: the accumulators of mma.sync are exchanged, and no result is reduced");
  static_assert(!C::stream_k || C::split_k == 1, "rule stream_k_split: k is split, or dealt out");
  static_assert(!C::stream_k || (C::blocks > C::launched_blocks && C::blocks % C::launched_blocks != 0),
                "rule stream_k_waves: a partial wave behind whole ones");
  static_assert(!C::stream_k || C::tiles_k > 1, "rule stream_k_tiles: k-tiles are dealt out");

  static constexpr bool any_async = A::copy_async || B::copy_async;

  using Accumulators = typename I::FragmentC[C::fragments_m][C::fragments_n];
  static_assert(sizeof(Accumulators) == C::accumulators * sizeof(Sum),
                "rule accumulators: the fragments of a warp must make up its part of the tile");

  // Where the fragments of C that a warp owns begin, from the warp's first one on.
  __device__ static constexpr int fragment_row(int i) { return fragment_at(i, I::m, C::sg_layout_m, C::sg_data_m); }
  __device__ static constexpr int fragment_col(int j) { return fragment_at(j, I::n, C::sg_layout_n, C::sg_data_n); }

  // Both operands' next k-tile, on its way into one stage of shared memory.
  struct Loader {
    typename A::Copy a;
    typename B::Copy b;
    unsigned shared;

    __device__ __forceinline__ void start(int stage) const {
      const unsigned at = shared + unsigned(stage * C::stage_bytes);
      if constexpr (A::copy_async) a.start(at);
      if constexpr (B::copy_async) b.start(at + A::stage_bytes);
    }
    __device__ __forceinline__ void load() {
      if constexpr (!A::copy_async) a.load();
      if constexpr (!B::copy_async) b.load();
    }
    __device__ __forceinline__ void store(int stage) const {
      const unsigned at = shared + unsigned(stage * C::stage_bytes);
      if constexpr (!A::copy_async) a.store(at);
      if constexpr (!B::copy_async) b.store(at + A::stage_bytes);
    }
    __device__ __forceinline__ void advance() {
      if constexpr (A::row_major) {
        a.advance_minor();
      } else {
        a.advance_major();
      }
      if constexpr (B::row_major) {
        b.advance_major();
      } else {
        b.advance_minor();
      }
    }
    __device__ __forceinline__ static void commit() {
      if constexpr (any_async) ptx::cp_async_commit_group();
    }
    // The oldest stage has landed for every thread of the block.
    template <int Pending>
    __device__ __forceinline__ static void wait() {
      if constexpr (any_async) ptx::cp_async_wait_group<Pending>();
      ptx::barrier_sync();
    }
  };

  // The fragments of a warp for one step of the intrinsic along k.
  struct Fragments {
    typename I::FragmentA a[C::fragments_m];
    typename I::FragmentB b[C::fragments_n];

    __device__ __forceinline__ void load(unsigned tile, int step, int warp_m, int warp_n, int lane) {
#pragma unroll
      for (int i = 0; i < C::fragments_m; ++i) {
        I::template load_a<A>(a[i], tile, warp_m * C::sg_data_m, fragment_row(i), step * I::k, lane);
      }
#pragma unroll
      for (int j = 0; j < C::fragments_n; j += B::group) {
        I::template load_b<B, B::group>(&b[j], tile + A::stage_bytes, step * I::k, warp_n * C::sg_data_n,
                                        fragment_col(j), lane);
      }
    }
    __device__ __forceinline__ void multiply(Accumulators& acc) const {
#pragma unroll
      for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
        for (int j = 0; j < C::fragments_n; ++j) I::template multiply<A, B>(acc[i][j], a[i], b[j]);
      }
    }
  };
  static constexpr int tile_steps = C::tile_k / I::k;

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, unsigned tile, int warp_m, int warp_n,
                                                       int lane) {
#pragma unroll C::k_unroll
    for (int step = 0; step < tile_steps; ++step) {
      Fragments fragments;
      fragments.load(tile, step, warp_m, warp_n, lane);
      fragments.multiply(acc);
    }
  }

  // The main loop with two buffers of fragments: those of the next step are loaded while this one is multiplied, also
  // over the barrier between two k-tiles, so that the tensor cores have work behind it.
  __device__ static __forceinline__ void pipelined_loop(Accumulators& acc, Loader& loader, int tiles, int warp_m,
                                                        int warp_n, int lane) {
    constexpr int ahead = C::stages - 1, pending = C::stages - 2;
#pragma unroll 1
    for (int s = 0; s < ahead; ++s) {
      if (s < tiles) {
        loader.start(s);
        loader.advance();
      }
      Loader::commit();
    }
    const auto behind = [](int at) { return at + 1 == C::stages ? 0 : at + 1; };
    Fragments held[2];
    unsigned tile = loader.shared;
    int stage = 0, fill = ahead;
    Loader::template wait<pending>();
    held[0].load(tile, 0, warp_m, warp_n, lane);
#pragma unroll 1
    for (int now = 0; now < tiles; ++now) {
#pragma unroll
      for (int step = 0; step < tile_steps; ++step) {
        if (step + 1 < tile_steps) {
          held[(step + 1) % 2].load(tile, step + 1, warp_m, warp_n, lane);
        } else {
          // All fragments of this k-tile are in registers.
          stage = behind(stage);
          tile = loader.shared + unsigned(stage * C::stage_bytes);
          Loader::template wait<pending>();
          if (now + 1 < tiles) held[0].load(tile, 0, warp_m, warp_n, lane);
        }
        if (step == 0) {
          // Stage `fill` held the k-tile before this one; the last barrier says that everybody is done with it.
          if (now + ahead < tiles) loader.start(fill);
          loader.advance();
          Loader::commit();
          fill = behind(fill);
        }
        held[step % 2].multiply(acc);
      }
    }
  }

  __device__ static __forceinline__ void main_loop(Accumulators& acc, Loader& loader, int tiles, int warp_m,
                                                   int warp_n, int lane) {
    constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;  // k-tiles loaded before the first is used
#pragma unroll 1
    for (int s = 0; s < ahead; ++s) {
      if (s < tiles) {
        loader.start(s);
        loader.load();
        loader.store(s);
        loader.advance();
      }
      Loader::commit();
    }
    int stage = 0, fill = C::stages > 1 ? C::stages - 1 : 0;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      Loader::template wait<C::stages >= 2 ? C::stages - 2 : 0>();
      const bool more = t + ahead < tiles;
      const unsigned tile = loader.shared + unsigned(stage * C::stage_bytes);
      if constexpr (C::stages > 1) {
        // Stage `fill` was read in the previous step; the barrier above says that everybody is done with it.
        if (more) {
          loader.start(fill);
          loader.load();
        }
        Loader::commit();
        multiply_tile(acc, tile, warp_m, warp_n, lane);
        if (more) loader.store(fill);
        loader.advance();
        stage = stage + 1 == C::stages ? 0 : stage + 1;
        fill = fill + 1 == C::stages ? 0 : fill + 1;
      } else {
        if (more) loader.load();
        multiply_tile(acc, tile, warp_m, warp_n, lane);
        ptx::barrier_sync();  // everybody has read the only stage before it is filled again
        if (more) {
          loader.start(0);
          loader.store(0);
          loader.advance();
        }
        Loader::commit();
      }
    }
  }

  // Adds the partial sums of all splits in the order of the splits, so that the result does not depend on which
  // block comes last. Returns whether this block is the last of its tile, which then finishes it.
  __device__ static __forceinline__ bool combine_splits(Accumulators& acc, unsigned shared, float* partials,
                                                        unsigned* counter, int tile, int split) {
    Sum* acc_registers = &acc[0][0].x[0];
    float* mine = partials + static_cast<long long>(tile * C::split_k + split) * C::accumulators * C::threads;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) {
      ptx::st_global(mine + r * C::threads + int(threadIdx.x), AlignedVector<4>{{round_to<Sum>(acc_registers[r])}});
    }
    if (!is_last_block<C::split_k>(counter, shared)) return false;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) acc_registers[r] = 0;
    constexpr int sums = C::accumulators * C::threads;  // of one split
    const float* from = partials + static_cast<long long>(tile) * C::split_k * sums + int(threadIdx.x);
#pragma unroll 1
    for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
      for (int r = 0; r < C::accumulators; ++r) {
        acc_registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from + r * C::threads).word[0]);
      }
      from += sums;  // a constant step: addresses stay immediates
    }
    return true;
  }

  // Scales, bias and activation of sums in registers: those of a column are loaded once for all rows of the warp.
  using Results = Finished<C>[C::fragments_m][C::fragments_n][I::c_registers];
  __device__ static __forceinline__ void finish_in_registers(const Accumulators& acc, Results& x, const Ends<C>& ends,
                                                             int m0, int n0, int warp_m, int warp_n, int lane) {
    constexpr int run = I::c_run;
    constexpr int vector = common_vector<run>(C::n);
    float of_rows[C::fragments_m][I::c_registers / run];
    if constexpr (C::scale != "none") {
#pragma unroll
      for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
        for (int r = 0; r < I::c_registers / run; ++r) {
          const int row = m0 + warp_m * C::sg_data_m + fragment_row(i) + I::c_row(lane, r);
          of_rows[i][r] = ends.of_row(row < C::m ? row : C::m - 1);  // what is outside is not stored
        }
      }
    }
#pragma unroll
    for (int j = 0; j < C::fragments_n; ++j) {
      float added[run] = {}, of_columns[run] = {};
      if constexpr (C::has_bias || C::scale == "row_column") {
        const int col = n0 + warp_n * C::sg_data_n + fragment_col(j) + I::c_col(lane, 0);
#pragma unroll
        for (int e = 0; e < run; e += vector) {
          if (col + e >= C::n) continue;
          if constexpr (C::has_bias) {
            const auto loaded = ptx::ld_global_nc<vector * int(sizeof(Out))>(ends.bias + col + e);
#pragma unroll
            for (int v = 0; v < vector; ++v) added[e + v] = get_element<Out>(loaded, v);
          }
          if constexpr (C::scale == "row_column") {
            const auto loaded = ptx::ld_global_nc<vector * 4>(ends.scale_b + col + e);
#pragma unroll
            for (int v = 0; v < vector; ++v) of_columns[e + v] = get_element<float>(loaded, v);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
        for (int r = 0; r < I::c_registers; ++r) {
          auto y = static_cast<Finished<C>>(acc[i][j].x[r]);
          if constexpr (C::scale == "tensor") y *= of_rows[i][r / run];
          if constexpr (C::scale == "row_column") y *= of_rows[i][r / run] * of_columns[r % run];
          if constexpr (C::has_bias) y += added[r % run];
          if constexpr (C::activation != "none") y = activate<activation(C::activation)>(y);
          x[i][j][r] = y;
        }
      }
    }
  }

  __device__ static __forceinline__ void store_from_registers(Accumulators& acc, const Ends<C>& ends, Out* out, int m0,
                                                              int n0, int warp_m, int warp_n, int lane) {
    constexpr int run = I::c_run;
    constexpr int vector = common_vector<run>(C::n);
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
      for (int r = 0; r < I::c_registers / run; ++r) {
        const int row = m0 + warp_m * C::sg_data_m + fragment_row(i) + I::c_row(lane, r);
        if (row >= C::m) continue;
        Out* out_row = out + static_cast<long long>(row) * C::n;
        const float of_row = ends.of_row(row);
#pragma unroll
        for (int j = 0; j < C::fragments_n; ++j) {
          const int col = n0 + warp_n * C::sg_data_n + fragment_col(j) + I::c_col(lane, r);
#pragma unroll
          for (int e = 0; e < run; e += vector) {
            if (col + e < C::n) finish<C, vector>(&acc[i][j].x[r * run + e], ends, of_row, out_row, col + e);
          }
        }
      }
    }
  }

  // Each warp turns its results around in shared memory, a row of fragments at a time and already in the type of out:
  // they leave in vectors of up to 16 bytes, neighbouring lanes along a row of out. No warp waits for another.
  __device__ static __forceinline__ void store_turned(Accumulators& acc, unsigned shared, const Ends<C>& ends, Out* out,
                                                      int m0, int n0, int warp_m, int warp_n, int lane) {
    constexpr int bytes = sizeof(Out), columns = C::fragments_n * I::n, run = I::c_run;
    constexpr int widest = common_vector<16 / bytes>(I::n);  // of one fragment's row
    constexpr int vector = common_vector<widest>(C::n);
    static_assert(C::epilogue_line % vector == 0, "rule epilogue: rows begin at whole vectors");
    Results x;
    finish_in_registers(acc, x, ends, m0, n0, warp_m, warp_n, lane);
    ptx::barrier_sync();  // everybody has read the last k-tile
    const unsigned slice = shared + unsigned((warp_m * C::sg_layout_n + warp_n) * I::m * C::epilogue_line * bytes);
    const unsigned mine = slice + unsigned(I::c_row(lane, 0) * C::epilogue_line + I::c_col(lane, 0)) * bytes;
    const int row0 = m0 + warp_m * C::sg_data_m, col0 = n0 + warp_n * C::sg_data_n;
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
      if (i > 0) ptx::warp_sync();  // all lanes have read the rows before
#pragma unroll
      for (int j = 0; j < C::fragments_n; ++j) {
#pragma unroll
        for (int r = 0; r < I::c_registers / run; ++r) {
          const int rows = I::c_row(0, r);  // below the lane's first
          ptx::st_shared(mine + unsigned(rows * C::epilogue_line + j * I::n) * bytes,
                         pack<Out, run>(&x[i][j][r * run]));
        }
      }
      ptx::warp_sync();
      constexpr int together = vector == widest ? 32 : 4;  // narrow pieces are many: the code of all would be too long
#pragma unroll together
      for (int first = 0; first < I::m * columns; first += 32 * vector) {
        const int at = first + lane * vector, row = at / columns, col = at % columns;
        const int out_row = row0 + fragment_row(i) + row, out_col = col0 + fragment_col(col / I::n) + col % I::n;
        if (at < I::m * columns && out_row < C::m && out_col < C::n) {
          ptx::st_global(out + static_cast<long long>(out_row) * C::n + out_col,
                         ptx::ld_shared<vector * bytes>(slice + unsigned(row * C::epilogue_line + col) * bytes));
        }
      }
    }
  }

  __device__ static __forceinline__ void store_through_shared(Accumulators& acc, unsigned shared, const Ends<C>& ends,
                                                              Out* out, int m0, int n0, int warp_m, int warp_n,
                                                              int lane) {
    ptx::barrier_sync();  // everybody has read the last k-tile
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
      for (int j = 0; j < C::fragments_n; ++j) {
        const int row = warp_m * C::sg_data_m + fragment_row(i), col = warp_n * C::sg_data_n + fragment_col(j);
        if constexpr (I::opaque) {
          I::store_c(shared + unsigned(row * C::epilogue_line + col) * 4u, acc[i][j], C::epilogue_line);
        } else {
#pragma unroll
          for (int r = 0; r < I::c_registers / I::c_run; ++r) {
            const int at = (row + I::c_row(lane, r)) * C::epilogue_line + col + I::c_col(lane, r);
            ptx::st_shared(shared + unsigned(at) * 4u, pack<Sum, I::c_run>(&acc[i][j].x[r * I::c_run]));
          }
        }
      }
    }
    ptx::barrier_sync();
    // Four f32 fill a 16-byte load without bank conflicts; eight, for a 16-byte store of f16, would take two loads with
    // a stride of 32 bytes, two-way conflicts each.
    constexpr int vector = common_vector<4>(C::n);
#pragma unroll 1
    for (int at = int(threadIdx.x) * vector; at < C::tile_m * C::tile_n; at += C::threads * vector) {
      const int row = at / C::tile_n, col = at % C::tile_n;
      if (m0 + row >= C::m || n0 + col >= C::n) continue;
      const unsigned address = shared + unsigned(row * C::epilogue_line + col) * 4u;
      const auto loaded = ptx::ld_shared<vector * 4>(address);
      Finished<C> x[vector];
#pragma unroll
      for (int i = 0; i < vector; ++i) x[i] = static_cast<Finished<C>>(get_element<Sum>(loaded, i));
      finish_values<C, vector>(x, ends, ends.of_row(m0 + row), n0 + col);
      ptx::st_global(out + static_cast<long long>(m0 + row) * C::n + n0 + col, pack<Out, vector>(x));
      if constexpr (reduced_axis != ReducedAxis::none) ptx::st_shared(address, pack<float, vector>(x));
    }
  }

  // R = reduce(C), in f32 and before C is rounded to Out, with another wg_map than C's (XeTile RFC, appendix 2.2:
  // convert_layout through shared memory, then reduction): a subgroup has whole rows, or a thread whole columns. Tiles
  // side by side leave their parts in `parts`, and the last of them puts those together in the order of the tiles.
  struct Reduction {
    static constexpr bool rows = reduced_axis == ReducedAxis::row;
    static constexpr bool sums = C::reduction == "row_sum" || C::reduction == "column_sum";
    using State = conditional<sums, SumState, MaxState>;
    static constexpr int kept_size = rows ? C::m : C::n, kept_tile = rows ? C::tile_m : C::tile_n;
    static constexpr int across = rows ? C::tiles_n : C::tiles_m;  // tiles that share results
    static constexpr int warps = C::threads / 32;
    static constexpr int columns = C::threads < C::tile_n ? C::threads : C::tile_n;  // threads side by side
    static constexpr int shares = C::threads / columns;  // of a column, which take every so many rows

    unsigned shared;
    int m0, n0;
    float* out;  // of this batch and tile, one for each kept index of the tile

    __device__ __forceinline__ bool keeps(int kept) const { return (rows ? m0 : n0) + kept < kept_size; }

    // An element of the finished tile; outside of C, one that changes nothing.
    template <class State>
    __device__ __forceinline__ State element(int row, int col) const {
      State state;
      if (m0 + row < C::m && n0 + col < C::n) {
        state.set(0, ptx::ld_shared<4>(shared + unsigned(row * C::epilogue_line + col) * 4u).word[0]);
      }
      return state;
    }

    template <class State>
    __device__ __forceinline__ void put(int kept, const State& state) const {
      if (keeps(kept)) ptx::st_global(out + kept, AlignedVector<4>{{state.get(0)}});
    }

    template <class State>
    __device__ __forceinline__ void reduce_rows() const {
      const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
#pragma unroll 4
      for (int row = warp; row < C::tile_m; row += warps) {
        State state;
#pragma unroll
        for (int col = 0; col < C::tile_n; col += 32) {
          if (col + lane < C::tile_n) state.merge(element<State>(row, col + lane));
        }
        reduce_lanes<32, 1>(state);
        if (lane == 0) put(row, state);
      }
    }

    template <class State>
    __device__ __forceinline__ void reduce_columns() const {
      const int first = int(threadIdx.x) % columns, share = int(threadIdx.x) / columns;
#pragma unroll 1
      for (int col = first; col < C::tile_n; col += columns) {
        State state;
        if (share < shares) {
#pragma unroll 8
          for (int row = share; row < C::tile_m; row += shares) state.merge(element<State>(row, col));
        }
        if constexpr (shares > 1) {  // then every thread has one column at the most
          ptx::barrier_sync();       // everybody has read the tile
          if (share < shares) {
            ptx::st_shared(shared + unsigned(share * columns + col) * 4u, AlignedVector<4>{{state.get(0)}});
          }
          ptx::barrier_sync();
          if (share == 0) {
#pragma unroll 4
            for (int other = 1; other < shares; ++other) {
              State part;
              part.set(0, ptx::ld_shared<4>(shared + unsigned(other * columns + col) * 4u).word[0]);
              state.merge(part);
            }
          }
        }
        if (share == 0) put(col, state);
      }
    }
  };

  __device__ static __forceinline__ void reduce(unsigned shared, float* reduced, float* parts, unsigned* counters,
                                                int batch, TileIndex tile) {
    using R = Reduction;
    using State = typename R::State;
    ptx::barrier_sync();  // the finished tile is in shared memory
    const int band = R::rows ? tile.m : tile.n, place = R::rows ? tile.n : tile.m;
    const int kept0 = band * R::kept_tile;
    const auto part = [&](int i) {
      return parts + (static_cast<long long>(batch) * R::across + i) * R::kept_size + kept0;
    };
    float* result = reduced + static_cast<long long>(batch) * R::kept_size + kept0;
    const R here{shared, tile.m * C::tile_m, tile.n * C::tile_n, R::across == 1 ? result : part(place)};
    if constexpr (R::rows) {
      here.template reduce_rows<State>();
    } else {
      here.template reduce_columns<State>();
    }
    if constexpr (R::across > 1) {
      constexpr int bands = R::rows ? C::tiles_m : C::tiles_n;
      if (!is_last_block<R::across>(counters + batch * bands + band, shared)) return;
#pragma unroll 1
      for (int kept = int(threadIdx.x); kept < R::kept_tile && here.keeps(kept); kept += C::threads) {
        State state;
#pragma unroll 8
        for (int i = 0; i < R::across; ++i) {
          State other;
          other.set(0, ptx::ld_global_cg<4>(part(i) + kept).word[0]);
          state.merge(other);
        }
        ptx::st_global(result + kept, AlignedVector<4>{{state.get(0)}});
      }
    }
  }

  using Deal = StreamK<C::blocks, C::launched_blocks, C::tiles_k>;
  // With stream_k the part of a tile that the block computes is kept at the end of its shared memory, and behind it what
  // is left for it: registers have no room for them beside the main loop.
  static constexpr int part_at = C::shared_bytes - 32, walk_at = C::shared_bytes - 16;

  // What a block computes of one tile of C: `count` k-tiles, from `first` on. `thread` is that of the caller.
  struct Work {
    int batch, split, first, count, thread;
    TileIndex tile;

    // `id` counts tiles of C, and of each the splits of k.
    __device__ __forceinline__ Work(int id, int thread_) : thread(thread_) {
      constexpr int tiles = C::tiles_m * C::tiles_n;
      constexpr bool batch_inner = C::batch_mapping == "inner";
      batch = batch_inner ? id % C::batch : id / (tiles * C::split_k);
      const int rest = batch_inner ? id / C::batch : id % (tiles * C::split_k);
      split = rest / tiles;
      tile = raster<raster_order(C::raster), raster_group(C::raster), C::tiles_m, C::tiles_n>(rest % tiles);
      first = split * C::tiles_of_split;
      count = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
    }
    // With stream_k all is read anew where it is needed, the 0 in the index of the thread, too: of what the compiler knows
    // to be the same for every tile, it keeps addresses in registers over all of them, and others are spilled for it.
    __device__ static __forceinline__ Work now(unsigned shared) {
      if constexpr (C::stream_k) {
        const auto kept = ptx::ld_shared<16>(shared + unsigned(part_at));
        Work work(int(kept.word[0]), int(threadIdx.x) + int(kept.word[3]));
        work.first = int(kept.word[1]);
        work.count = int(kept.word[2]);
        return work;
      } else {
        return Work(int(blockIdx.x), int(threadIdx.x));
      }
    }
    __device__ __forceinline__ int m0() const { return tile.m * C::tile_m; }
    __device__ __forceinline__ int n0() const { return tile.n * C::tile_n; }
    __device__ __forceinline__ int warp_m() const { return thread / 32 / C::sg_layout_n; }  // subgroups are row-major
    __device__ __forceinline__ int warp_n() const { return thread / 32 % C::sg_layout_n; }
    __device__ __forceinline__ int lane() const { return thread % 32; }
  };

  __device__ static __forceinline__ void run(const T* a, const T* b, const Ends<C>& ends, Out* out, float* partials,
                                             unsigned* counters, float* reduced, float* parts,
                                             unsigned* band_counters) {
    const unsigned shared = ptx::shared_memory();
    if constexpr (C::stream_k) {
      if (threadIdx.x == 0) keep(shared + unsigned(walk_at), Deal::Walk::of(int(blockIdx.x)));
#pragma unroll 1
      while (true) {
        if (threadIdx.x == 0) {
          const auto kept = ptx::ld_shared<16>(shared + unsigned(walk_at));
          typename Deal::Walk walk{int(kept.word[0]), int(kept.word[1]), int(kept.word[2]), int(kept.word[3])};
          const typename Deal::Part part = walk.next();
          ptx::st_shared(shared + unsigned(part_at),
                         AlignedVector<16>{{unsigned(part.tile), unsigned(part.first), unsigned(part.count), 0u}});
          keep(shared + unsigned(walk_at), walk);
        }
        ptx::barrier_sync();  // the part is kept
        if (ptx::ld_shared<16>(shared + unsigned(part_at)).word[2] == 0) break;
        compute(shared, a, b, ends, out, partials, counters, reduced, parts, band_counters);
        ptx::barrier_sync();  // everybody has read what the next tile overwrites
      }
    } else {
      compute(shared, a, b, ends, out, partials, counters, reduced, parts, band_counters);
    }
  }
  __device__ static __forceinline__ void keep(unsigned address, const typename Deal::Walk& walk) {
    ptx::st_shared(address, AlignedVector<16>{{unsigned(walk.tile), unsigned(walk.first), unsigned(walk.left),
                                               unsigned(walk.whole)}});
  }

  __device__ static __forceinline__ void compute(unsigned shared, const T* a, const T* b, Ends<C> ends, Out* out,
                                                 float* partials, unsigned* counters, float* reduced, float* parts,
                                                 unsigned* band_counters) {
    Accumulators acc = {};
    multiply(acc, Work::now(shared), shared, a, b);
    const Work work = Work::now(shared);
    const TileIndex tile = work.tile;
    const int batch = work.batch, m0 = work.m0(), n0 = work.n0();
    const int warp_m = work.warp_m(), warp_n = work.warp_n(), lane = work.lane();
    out += static_cast<long long>(batch) * C::m * C::n;
    ends = ends.of_matrix(batch);
    if constexpr (C::split_k > 1) {
      const int output_tile = (batch * C::tiles_m + tile.m) * C::tiles_n + tile.n;
      if (!combine_splits(acc, shared, partials, counters + output_tile, output_tile, work.split)) return;
    }
    if constexpr (C::stream_k) {
      if (work.count < C::tiles_k) {
        ptx::barrier_sync();  // everybody has read the last k-tile
        const typename Deal::Part part{0, work.first, work.count};
        const int cut = part.cut(int(blockIdx.x));
        if (!add_other_part<C::accumulators, C::threads>(
                &acc[0][0].x[0], partials + static_cast<long long>(cut) * C::accumulators * C::threads,
                counters + 2 * cut, shared, work.thread, 0)) {
          return;
        }
      }
    }
    if constexpr (epilogue_shared && !whole_tile) {
      store_turned(acc, shared, ends, out, m0, n0, warp_m, warp_n, lane);
    } else if constexpr (epilogue_shared) {
      store_through_shared(acc, shared, ends, out, m0, n0, warp_m, warp_n, lane);
    } else {
      store_from_registers(acc, ends, out, m0, n0, warp_m, warp_n, lane);
    }
    if constexpr (reduced_axis != ReducedAxis::none) reduce(shared, reduced, parts, band_counters, batch, tile);
  }

  // The products of all k-tiles of a part, copies included.
  __device__ static __forceinline__ void multiply(Accumulators& acc, const Work& work, unsigned shared, const T* a,
                                                  const T* b) {
    const int m0 = work.m0(), n0 = work.n0(), k0 = work.first * C::tile_k, thread = work.thread;
    a += static_cast<long long>(work.batch) * C::m * C::k;
    b += static_cast<long long>(work.batch) * C::k * C::n;
    Loader loader{A::row_major ? typename A::Copy(a, m0, k0, thread) : typename A::Copy(a, k0, m0, thread),
                  B::row_major ? typename B::Copy(b, k0, n0, thread) : typename B::Copy(b, n0, k0, thread), shared};
    if constexpr (C::fragment_buffers == 2) {
      pipelined_loop(acc, loader, work.count, work.warp_m(), work.warp_n(), work.lane());
    } else {
      main_loop(acc, loader, work.count, work.warp_m(), work.warp_n(), work.lane());
    }
  }
};

template <class Config>
__device__ __forceinline__ void matmul(const typename Config::T* a, const typename Config::T* b,
                                       const float* scale_a, const float* scale_b, const typename Config::Out* bias,
                                       typename Config::Out* out, float* partials, unsigned* counters, float* reduced,
                                       float* parts, unsigned* band_counters) {
  Matmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, partials, counters, reduced, parts, band_counters);
}

}  // namespace autosched
