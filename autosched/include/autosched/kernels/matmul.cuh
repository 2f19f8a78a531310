// C = epilogue(A * B): one block computes a tile_m x tile_n tile of C (of one split of K), staged through shared
// memory, with the loop of the XeTile RFC's appendix 2.4: cooperative loads of a later k-tile overlap the
// arithmetic of this one.
//
// Config (see search_spaces/templates/matmul/lowering.py, which writes it):
//   sizes      m, n, k, batch, tile_m, tile_n, tile_k, sg_layout_m/n, sg_data_m/n, split_k
//   operands   A, B: T, row_major, Layout, stage_bytes, how the intrinsic reads it (transposed, order,
//              leading_dimension, vector), how it is copied (copy_async, copy_vector, copy_columns, copy_store)
//   the rest   Intrinsic, Out, stages, k_unroll, epilogue_shared, store_vector, raster_order, raster_group,
//              batch_inner, has_bias, activation, reduce_along and, unless that is none, ReduceState
#pragma once
#include <autosched/common/activation.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/common/shared_layout.cuh>
#include <autosched/common/tile_copy.cuh>
#include <autosched/intrinsics/fma.cuh>
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/intrinsics/wmma.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// What becomes of C besides being stored: one value for each of its rows, or for each of its columns.
enum class Along { none, row, column };

template <class Config>
struct Matmul {
  using C = Config;
  using I = typename C::Intrinsic;
  using A = typename C::A;
  using B = typename C::B;
  using Out = typename C::Out;

  static_assert(C::tile_m % (C::sg_layout_m * C::sg_data_m) == 0 && C::tile_n % (C::sg_layout_n * C::sg_data_n) == 0,
                "rule wg_map: sg_layout x sg_data must divide the workgroup tile");
  static_assert(C::sg_data_m % I::m == 0 && C::sg_data_n % I::n == 0 && C::tile_k % I::k == 0,
                "rule fragments: sg_data and tile_k must be multiples of the intrinsic's shape");
  static_assert(C::k_unroll >= 1 && C::tile_k / I::k % C::k_unroll == 0,
                "rule k_unroll: the unroll must divide the intrinsic steps of tile_k");
  static_assert(!I::opaque || C::epilogue_shared,
                "rule epilogue: wmma accumulators leave through shared memory only");
  static_assert(C::reduce_along == Along::none || C::epilogue_shared,
                "rule epilogue: a reduction finds C in shared memory");
  static_assert(C::stages >= 1 && C::stages <= 5, "rule stages: 1 to 5 pipeline stages");
  static_assert(C::n % C::store_vector == 0, "rule store_vector: the vector must divide n");

  static constexpr int threads = C::sg_layout_m * C::sg_layout_n * 32;
  static_assert(threads <= 1024, "rule threads: at most 1024 threads a block");

  // Fragments of C that a warp owns: round robin over sg_layout, sg_data at a time.
  static constexpr int per_m = C::sg_data_m / I::m, per_n = C::sg_data_n / I::n;
  static constexpr int fragments_m = C::tile_m / (C::sg_layout_m * I::m);
  static constexpr int fragments_n = C::tile_n / (C::sg_layout_n * I::n);
  static constexpr int group_n = per_n % I::b_group == 0 ? I::b_group : 1;
  static constexpr int accumulators = fragments_m * fragments_n * I::c_registers;

  static constexpr int tiles_m = ceil_div(C::m, C::tile_m), tiles_n = ceil_div(C::n, C::tile_n);
  static constexpr int tiles_k = ceil_div(C::k, C::tile_k);
  static constexpr int tiles_k_of_split = ceil_div(tiles_k, C::split_k);
  static_assert((C::split_k - 1) * tiles_k_of_split < tiles_k, "rule split_k: every split needs a k-tile");

  static constexpr int stage_bytes = A::stage_bytes + B::stage_bytes;
  static constexpr bool any_async = A::copy_async || B::copy_async;

  using CopyA = TileCopy<typename A::T, typename A::Layout, A::row_major ? C::tile_m : C::tile_k,
                         A::row_major ? C::tile_k : C::tile_m, A::row_major ? C::m : C::k,
                         A::row_major ? C::k : C::m, A::row_major, threads, A::copy_columns, A::copy_vector,
                         A::copy_store, A::copy_async>;
  using CopyB = TileCopy<typename B::T, typename B::Layout, B::row_major ? C::tile_k : C::tile_n,
                         B::row_major ? C::tile_n : C::tile_k, B::row_major ? C::k : C::n,
                         B::row_major ? C::n : C::k, B::row_major, threads, B::copy_columns, B::copy_vector,
                         B::copy_store, B::copy_async>;

  using Accumulators = typename I::FragmentC[fragments_m][fragments_n];

  // Where the warp's fragment i begins inside the tile.
  __device__ static __forceinline__ int origin_m(int warp_m, int i) {
    return (i / per_m * C::sg_layout_m + warp_m) * C::sg_data_m + i % per_m * I::m;
  }
  __device__ static __forceinline__ int origin_n(int warp_n, int j) {
    return (j / per_n * C::sg_layout_n + warp_n) * C::sg_data_n + j % per_n * I::n;
  }

  // Both operands' next k-tile, on its way into one stage of shared memory.
  struct Loader {
    CopyA a;
    CopyB b;
    unsigned shared;

    __device__ __forceinline__ void start(int stage) const {
      const unsigned at = shared + unsigned(stage * stage_bytes);
      if constexpr (A::copy_async) a.start(at);
      if constexpr (B::copy_async) b.start(at + A::stage_bytes);
    }
    __device__ __forceinline__ void load() {
      if constexpr (!A::copy_async) a.load();
      if constexpr (!B::copy_async) b.load();
    }
    __device__ __forceinline__ void store(int stage) const {
      const unsigned at = shared + unsigned(stage * stage_bytes);
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

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, unsigned tile, int warp_m, int warp_n,
                                                       int lane) {
#pragma unroll C::k_unroll
    for (int step = 0; step < C::tile_k / I::k; ++step) {
      typename I::FragmentA a[fragments_m];
      typename I::FragmentB b[fragments_n];
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
        I::template load_a<A>(a[i], tile, origin_m(warp_m, i), step * I::k, lane);
      }
#pragma unroll
      for (int j = 0; j < fragments_n; j += group_n) {
        I::template load_b<B, group_n>(&b[j], tile + A::stage_bytes, step * I::k, origin_n(warp_n, j), lane);
      }
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) {
#pragma unroll
        for (int j = 0; j < fragments_n; ++j) I::template multiply<A, B>(acc[i][j], a[i], b[j]);
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
      const unsigned tile = loader.shared + unsigned(stage * stage_bytes);
      if constexpr (C::stages > 1) {
        // Stage `fill` was read in the previous step; the barrier above says that everybody is done with it.
        if (more) {
          loader.start(fill);
          loader.load();
        }
        Loader::commit();
        multiply_tile(acc, tile, warp_m, warp_n, lane);
        if (more) {
          loader.store(fill);
          loader.advance();
        }
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
    float* acc_registers = &acc[0][0].x[0];
    float* mine = partials + static_cast<long long>(tile * C::split_k + split) * accumulators * threads;
#pragma unroll
    for (int r = 0; r < accumulators; ++r) {
      ptx::st_global(mine + r * threads + int(threadIdx.x), AlignedVector<4>{{ptx::bits_of(acc_registers[r])}});
    }
    if (!is_last_block<C::split_k>(counter, shared)) return false;
#pragma unroll
    for (int r = 0; r < accumulators; ++r) acc_registers[r] = 0.0f;
    const float* from = partials + static_cast<long long>(tile) * C::split_k * accumulators * threads + int(threadIdx.x);
#pragma unroll 1
    for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
      for (int r = 0; r < accumulators; ++r) {
        acc_registers[r] += ptx::float_of(ptx::ld_global_cg<4>(from + r * threads).word[0]);
      }
      from += accumulators * threads;  // a constant step: addresses stay immediates
    }
    return true;
  }

  // Bias, activation and store of Count neighbours of one row, inside the array as a whole.
  template <int Count>
  __device__ static __forceinline__ void finish(float* x, const Out* bias, Out* row, int col) {
    if constexpr (C::has_bias) {
      const auto packet = ptx::ld_global_nc<Count * int(sizeof(Out))>(bias + col);
#pragma unroll
      for (int i = 0; i < Count; ++i) x[i] += get_element<Out>(packet, i);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) x[i] = activate<C::activation>(x[i]);
    ptx::st_global(row + col, pack<Out, Count>(x));
  }

  __device__ static __forceinline__ void store_from_registers(Accumulators& acc, const Out* bias, Out* out, int m0,
                                                              int n0, int warp_m, int warp_n, int lane) {
    constexpr int run = I::c_run;
    constexpr int vector = C::n % run == 0 ? run : (run > 2 && C::n % 2 == 0 ? 2 : 1);
#pragma unroll
    for (int i = 0; i < fragments_m; ++i) {
#pragma unroll
      for (int r = 0; r < I::c_registers / run; ++r) {
        const int row = m0 + origin_m(warp_m, i) + I::c_row(lane, r);
        if (row >= C::m) continue;
        Out* out_row = out + static_cast<long long>(row) * C::n;
#pragma unroll
        for (int j = 0; j < fragments_n; ++j) {
          const int col = n0 + origin_n(warp_n, j) + I::c_col(lane, r);
#pragma unroll
          for (int e = 0; e < run; e += vector) {
            if (col + e < C::n) finish<vector>(&acc[i][j].x[r * run + e], bias, out_row, col + e);
          }
        }
      }
    }
  }

  // Rows of the f32 tile in shared memory are 32 bytes longer than the tile: wmma stores need 32-byte steps, and
  // neighbouring rows start in other banks.
  static constexpr int epilogue_line = C::tile_n + 8;

  __device__ static __forceinline__ void store_through_shared(Accumulators& acc, unsigned shared, const Out* bias,
                                                              Out* out, int m0, int n0, int warp_m, int warp_n,
                                                              int lane) {
    ptx::barrier_sync();  // everybody has read the last k-tile
#pragma unroll
    for (int i = 0; i < fragments_m; ++i) {
#pragma unroll
      for (int j = 0; j < fragments_n; ++j) {
        const int row = origin_m(warp_m, i), col = origin_n(warp_n, j);
        if constexpr (I::opaque) {
          I::store_c(shared + unsigned(row * epilogue_line + col) * 4u, acc[i][j], epilogue_line);
        } else {
#pragma unroll
          for (int r = 0; r < I::c_registers / I::c_run; ++r) {
            const int at = (row + I::c_row(lane, r)) * epilogue_line + col + I::c_col(lane, r);
            ptx::st_shared(shared + unsigned(at) * 4u, pack<float, I::c_run>(&acc[i][j].x[r * I::c_run]));
          }
        }
      }
    }
    ptx::barrier_sync();
    constexpr int vector = C::store_vector;
    constexpr int width = vector < 4 ? vector : 4;  // floats of one ld.shared
#pragma unroll 1
    for (int at = int(threadIdx.x) * vector; at < C::tile_m * C::tile_n; at += threads * vector) {
      const int row = at / C::tile_n, col = at % C::tile_n;
      if (m0 + row >= C::m || n0 + col >= C::n) continue;
      float x[vector];
#pragma unroll
      for (int e = 0; e < vector; e += width) {
        const auto packet = ptx::ld_shared<width * 4>(shared + unsigned(row * epilogue_line + col + e) * 4u);
#pragma unroll
        for (int i = 0; i < width; ++i) x[e + i] = get_element<float>(packet, i);
      }
      finish<vector>(x, bias, out + static_cast<long long>(m0 + row) * C::n, n0 + col);
      if constexpr (C::reduce_along != Along::none) {
#pragma unroll
        for (int e = 0; e < vector; e += width) {
          ptx::st_shared(shared + unsigned(row * epilogue_line + col + e) * 4u, pack<float, width>(&x[e]));
        }
      }
    }
  }

  // R = reduce(C), in f32 and before C is rounded to Out, with another wg_map than C's (XeTile RFC, appendix 2.2:
  // convert_layout through shared memory, then reduction): a subgroup has whole rows, or a thread whole columns. Tiles
  // side by side leave their parts in `parts`, and the last of them puts those together in the order of the tiles.
  struct Reduction {
    static constexpr bool rows = C::reduce_along == Along::row;
    static constexpr int kept_size = rows ? C::m : C::n, kept_tile = rows ? C::tile_m : C::tile_n;
    static constexpr int across = rows ? tiles_n : tiles_m;  // tiles that share results
    static constexpr int warps = threads / 32;
    static constexpr int columns = threads < C::tile_n ? threads : C::tile_n;  // threads side by side
    static constexpr int shares = threads / columns;                           // of a column, which take every so many rows

    unsigned shared;
    int m0, n0;
    float* out;  // of this batch and tile, one for each kept index of the tile

    __device__ __forceinline__ bool keeps(int kept) const { return (rows ? m0 : n0) + kept < kept_size; }

    // An element of the finished tile; outside of C, one that changes nothing.
    template <class State>
    __device__ __forceinline__ State element(int row, int col) const {
      State state;
      if (m0 + row < C::m && n0 + col < C::n) {
        state.set(0, ptx::ld_shared<4>(shared + unsigned(row * epilogue_line + col) * 4u).word[0]);
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
    using State = typename C::ReduceState;
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
      constexpr int bands = R::rows ? tiles_m : tiles_n;
      if (!is_last_block<R::across>(counters + batch * bands + band, shared)) return;
#pragma unroll 1
      for (int kept = int(threadIdx.x); kept < R::kept_tile && here.keeps(kept); kept += threads) {
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

  __device__ static __forceinline__ void run(const typename A::T* a, const typename B::T* b, const Out* bias, Out* out,
                                             float* partials, unsigned* counters, float* reduced, float* parts,
                                             unsigned* band_counters) {
    constexpr int tiles = tiles_m * tiles_n;
    const int id = int(blockIdx.x);
    const int batch = C::batch_inner ? id % C::batch : id / (tiles * C::split_k);
    const int rest = C::batch_inner ? id / C::batch : id % (tiles * C::split_k);
    const int split = rest / tiles;
    const TileIndex tile = raster<C::raster_order, C::raster_group, tiles_m, tiles_n>(rest % tiles);
    const int m0 = tile.m * C::tile_m, n0 = tile.n * C::tile_n, k0 = split * tiles_k_of_split * C::tile_k;

    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int warp_m = warp / C::sg_layout_n, warp_n = warp % C::sg_layout_n;  // subgroup ids are row-major

    const unsigned shared = ptx::shared_memory();
    a += static_cast<long long>(batch) * C::m * C::k;
    b += static_cast<long long>(batch) * C::k * C::n;
    out += static_cast<long long>(batch) * C::m * C::n;
    Loader loader{A::row_major ? CopyA(a, m0, k0) : CopyA(a, k0, m0), B::row_major ? CopyB(b, k0, n0) : CopyB(b, n0, k0),
                  shared};

    Accumulators acc = {};
    const int tiles_left = tiles_k - split * tiles_k_of_split;
    const int steps = tiles_left < tiles_k_of_split ? tiles_left : tiles_k_of_split;
    main_loop(acc, loader, steps, warp_m, warp_n, lane);

    if constexpr (C::split_k > 1) {
      const int output_tile = (batch * tiles_m + tile.m) * tiles_n + tile.n;
      if (!combine_splits(acc, shared, partials, counters + output_tile, output_tile, split)) return;
    }
    if constexpr (C::epilogue_shared) {
      store_through_shared(acc, shared, bias, out, m0, n0, warp_m, warp_n, lane);
    } else {
      store_from_registers(acc, bias, out, m0, n0, warp_m, warp_n, lane);
    }
    if constexpr (C::reduce_along != Along::none) reduce(shared, reduced, parts, band_counters, batch, tile);
  }
};

template <class Config>
__device__ __forceinline__ void matmul(const typename Config::A::T* a, const typename Config::B::T* b,
                                       const typename Config::Out* bias, typename Config::Out* out, float* partials,
                                       unsigned* counters, float* reduced = nullptr, float* parts = nullptr,
                                       unsigned* band_counters = nullptr) {
  Matmul<Config>::run(a, b, bias, out, partials, counters, reduced, parts, band_counters);
}

}  // namespace autosched
