// Reductions of C: sums or maxima of its rows or columns, which are an additional output.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// The additional output of a reduction: one value for each row of C, or for each column.
enum class ReducedAxis { none, row, column };

__host__ __device__ constexpr ReducedAxis reduced_axis_of(const Choice& reduction) {
  return reduction.starts_with("row_")      ? ReducedAxis::row
         : reduction.starts_with("column_") ? ReducedAxis::column
                                            : ReducedAxis::none;
}

// R = reduce(C), computed in f32 before C is rounded to Out. C goes through shared memory, because the wg_map of the
// reduction differs from the wg_map of C (XeTile RFC, appendix 2.2: convert_layout, then reduction). In the reduction,
// each subgroup reduces whole rows, or threads reduce columns. Tiles along the reduced axis store their partial results
// in `parts`. The last tile to finish combines them in the order of the tiles.
template <class C>
struct MatmulReduction {
  static constexpr bool rows = reduced_axis_of(C::reduction) == ReducedAxis::row;
  static constexpr bool sums = C::reduction == "row_sum" || C::reduction == "column_sum";
  using State = conditional<sums, SumState, MaxState>;
  static constexpr int kept_size = rows ? C::m : C::n, kept_tile = rows ? C::tile_m : C::tile_n;
  static constexpr int across = rows ? C::tiles_n : C::tiles_m;  // number of tiles that contribute to the same results
  static constexpr int warps = C::threads / 32;
  // number of threads that reduce a row
  static constexpr int columns = C::threads < C::tile_n ? C::threads : C::tile_n;
  static constexpr int shares = C::threads / columns;  // number of threads that share the rows of a column

  unsigned shared;
  int m0, n0;
  float* out;  // results of this batch and tile, one for each index that is not reduced

  __device__ __forceinline__ bool keeps(int kept) const { return (rows ? m0 : n0) + kept < kept_size; }

  // Returns an element of the finished tile. For an element outside of C, returns the neutral element of the reduction.
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
      if constexpr (shares > 1) {  // each thread has at most one column
        ptx::barrier_sync();       // all threads have read the tile
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

template <class C>
__device__ __forceinline__ void reduce_tile(unsigned shared, float* reduced, float* parts, unsigned* counters,
                                            int batch, TileIndex tile) {
  using R = MatmulReduction<C>;
  using State = typename R::State;
  ptx::barrier_sync();  // the finished tile is in shared memory
  const int band = R::rows ? tile.m : tile.n, index_in_band = R::rows ? tile.n : tile.m;
  const int kept0 = band * R::kept_tile;
  const auto part = [&](int i) {
    return parts + (static_cast<long long>(batch) * R::across + i) * R::kept_size + kept0;
  };
  float* result = reduced + static_cast<long long>(batch) * R::kept_size + kept0;
  const R reduction{shared, tile.m * C::tile_m, tile.n * C::tile_n, R::across == 1 ? result : part(index_in_band)};
  if constexpr (R::rows) {
    reduction.template reduce_rows<State>();
  } else {
    reduction.template reduce_columns<State>();
  }
  if constexpr (R::across > 1) {
    constexpr int bands = R::rows ? C::tiles_m : C::tiles_n;
    if (!is_last_block<R::across>(counters + batch * bands + band, shared)) return;
#pragma unroll 1
    for (int kept = int(threadIdx.x); kept < R::kept_tile && reduction.keeps(kept); kept += C::threads) {
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

}  // namespace autosched
