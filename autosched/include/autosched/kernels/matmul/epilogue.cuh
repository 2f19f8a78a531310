// Epilogue of a tile: scales, bias and activation of the sums, and stores from registers or through shared memory.
#pragma once
#include <autosched/common/finish.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/kernels/matmul/reduction.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// The largest power of two, up to Most, that divides `extent`.
template <int Most>
__host__ __device__ constexpr int common_vector(int extent) {
  int vector = Most;
  while (extent % vector != 0) vector /= 2;
  return vector;
}

template <class C>
struct MatmulEpilogue {
  using I = typename C::Intrinsic;
  using Warp = WarpTile<C>;
  using Accumulators = typename Warp::Accumulators;
  using Out = typename C::Out;
  static constexpr ReducedAxis reduced_axis = reduced_axis_of(C::reduction);
  // The shared-memory epilogue stores the whole tile in f32 if a reduction reads it, or if accumulators require
  // wmma.store.
  static constexpr bool whole_tile = I::opaque || reduced_axis != ReducedAxis::none;

  __device__ static __forceinline__ void store(Accumulators& acc, unsigned shared, const EpilogueArgs<C>& ends, Out* out,
                                               int m0, int n0, int warp_m, int warp_n, int lane) {
    if constexpr (C::epilogue == "shared" && !whole_tile) {
      store_turned(acc, shared, ends, out, m0, n0, warp_m, warp_n, lane);
    } else if constexpr (C::epilogue == "shared") {
      store_through_shared(acc, shared, ends, out, m0, n0, warp_m, warp_n, lane);
    } else {
      store_from_registers(acc, ends, out, m0, n0, warp_m, warp_n, lane);
    }
  }

  // Applies scales, bias and activation to `rows_finished` rows of fragments in registers, beginning with row `from`.
  // Scales and bias of a column are loaded once for all rows of the warp. If sums are pairs of f16, one row is
  // processed at a time, because each pair becomes two registers.
  static constexpr int rows_finished = sums_of_register<typename Warp::Sum> > 1 ? 1 : C::fragments_m;
  using Results = Finished<C>[rows_finished][C::fragments_n][I::c_registers];
  __device__ static __forceinline__ void finish_in_registers(const Accumulators& acc, int from, Results& x,
                                                             const EpilogueArgs<C>& ends, int m0, int n0, int warp_m,
                                                             int warp_n, int lane) {
    constexpr int run = I::c_run;
    constexpr int vector = common_vector<run>(C::n);
    float of_rows[rows_finished][I::c_registers / run];
    if constexpr (C::scale != "none") {
#pragma unroll
      for (int i = 0; i < rows_finished; ++i) {
#pragma unroll
        for (int r = 0; r < I::c_registers / run; ++r) {
          const int row = m0 + warp_m * C::sg_data_m + Warp::fragment_row(from + i) + I::c_row(lane, r);
          // rows outside C are not stored, so they may use the scale of C's last row
          of_rows[i][r] = ends.of_row(row < C::m ? row : C::m - 1);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < C::fragments_n; ++j) {
      float added[run] = {}, of_columns[run] = {};
      if constexpr (C::has_bias || C::scale == "row_column") {
        const int col = n0 + warp_n * C::sg_data_n + Warp::fragment_col(j) + I::c_col(lane, 0);
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
      for (int i = 0; i < rows_finished; ++i) {
#pragma unroll
        for (int r = 0; r < I::c_registers; ++r) {
          auto y = static_cast<Finished<C>>(sum_at(acc[from + i][j].x, r));
          if constexpr (C::scale == "tensor") y *= of_rows[i][r / run];
          if constexpr (C::scale == "row_column") y *= of_rows[i][r / run] * of_columns[r % run];
          if constexpr (C::has_bias) y += added[r % run];
          if constexpr (C::activation != "none") y = activate<activation(C::activation)>(y);
          x[i][j][r] = y;
        }
      }
    }
  }

  // All addresses have constant distances from the lane's first address. A pointer to each row would need two registers
  // and a multiplication.
  __device__ static __forceinline__ void store_from_registers(Accumulators& acc, const EpilogueArgs<C>& ends, Out* out, int m0,
                                                              int n0, int warp_m, int warp_n, int lane) {
    constexpr int run = I::c_run;
    constexpr int vector = common_vector<run>(C::n);
    // Long activations are computed within the branches, because otherwise ptxas interleaves all of them and spills
    // registers.
    constexpr bool is_long = C::activation != "none" && C::activation != "relu";
    constexpr bool cut_rows = is_long || C::m % C::tile_m != 0, cut_columns = is_long || C::n % C::tile_n != 0;
    const int row0 = m0 + warp_m * C::sg_data_m + I::c_row(lane, 0);
    const int col0 = n0 + warp_n * C::sg_data_n + I::c_col(lane, 0);
    const int rows_left = C::m - row0, columns_left = C::n - col0;
    Out* const first = out + static_cast<long long>(row0) * C::n;
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
      for (int r = 0; r < I::c_registers / run; ++r) {
        const int rows = Warp::fragment_row(i) + I::c_row(0, r);
        if (cut_rows && rows >= rows_left) continue;
        const float of_row = ends.of_row(row0 + rows);
#pragma unroll
        for (int j = 0; j < C::fragments_n; ++j) {
#pragma unroll
          for (int e = 0; e < run; e += vector) {
            const int columns = Warp::fragment_col(j) + e;
            if (cut_columns && columns >= columns_left) continue;
            Out* const out_row = first + static_cast<long long>(rows) * C::n;
            finish<C, vector>(acc[i][j].x, r * run + e, ends, of_row, out_row, col0 + columns);
          }
        }
      }
    }
  }

  // Each warp transposes its results in shared memory, a row of fragments at a time and in the type of out. It stores
  // vectors of up to 16 bytes, with adjacent lanes along a row of out. Warps do not wait for each other.
  __device__ static __forceinline__ void store_turned(Accumulators& acc, unsigned shared, const EpilogueArgs<C>& ends, Out* out,
                                                      int m0, int n0, int warp_m, int warp_n, int lane) {
    constexpr int bytes = sizeof(Out), columns = C::fragments_n * I::n, run = I::c_run;
    constexpr int widest = common_vector<16 / bytes>(I::n);  // largest vector that fits a row of a fragment
    constexpr int vector = common_vector<widest>(C::n);
    static_assert(C::epilogue_line % vector == 0, "rule epilogue: rows must begin at multiples of the vector");
    Results x;
    constexpr bool all_finished = rows_finished == C::fragments_m;
    if constexpr (all_finished) finish_in_registers(acc, 0, x, ends, m0, n0, warp_m, warp_n, lane);
    if constexpr (!C::stream_k) ptx::barrier_sync();  // all threads have read the last k-tile
    const unsigned slice = shared + unsigned((warp_m * C::subgroups_n + warp_n) * I::m * C::epilogue_line * bytes);
    const unsigned mine = slice + unsigned(I::c_row(lane, 0) * C::epilogue_line + I::c_col(lane, 0)) * bytes;
    const int row0 = m0 + warp_m * C::sg_data_m, col0 = n0 + warp_n * C::sg_data_n;
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
      if constexpr (!all_finished) finish_in_registers(acc, i, x, ends, m0, n0, warp_m, warp_n, lane);
      if (i > 0) ptx::warp_sync();  // all lanes have read the previous rows
#pragma unroll
      for (int j = 0; j < C::fragments_n; ++j) {
#pragma unroll
        for (int r = 0; r < I::c_registers / run; ++r) {
          const int rows = I::c_row(0, r);  // distance in rows from the lane's first row
          ptx::st_shared(mine + unsigned(rows * C::epilogue_line + j * I::n) * bytes,
                         pack<Out, run>(&x[i % rows_finished][j][r * run]));
        }
      }
      ptx::warp_sync();
      // Limits unrolling, because the code for many narrow vectors would be too long.
      constexpr int together = vector == widest ? 32 : 4;
#pragma unroll together
      for (int first = 0; first < I::m * columns; first += 32 * vector) {
        const int at = first + lane * vector, row = at / columns, col = at % columns;
        const int out_row = row0 + Warp::fragment_row(i) + row;
        const int out_col = col0 + Warp::fragment_col(col / I::n) + col % I::n;
        if (at < I::m * columns && out_row < C::m && out_col < C::n) {
          ptx::st_global(out + static_cast<long long>(out_row) * C::n + out_col,
                         ptx::ld_shared<vector * bytes>(slice + unsigned(row * C::epilogue_line + col) * bytes));
        }
      }
    }
  }

  __device__ static __forceinline__ void store_through_shared(Accumulators& acc, unsigned shared, const EpilogueArgs<C>& ends,
                                                              Out* out, int m0, int n0, int warp_m, int warp_n,
                                                              int lane) {
    ptx::barrier_sync();  // all threads have read the last k-tile
#pragma unroll
    for (int i = 0; i < C::fragments_m; ++i) {
#pragma unroll
      for (int j = 0; j < C::fragments_n; ++j) {
        const int row = warp_m * C::sg_data_m + Warp::fragment_row(i);
        const int col = warp_n * C::sg_data_n + Warp::fragment_col(j);
        if constexpr (I::opaque) {
          I::store_c(shared + unsigned(row * C::epilogue_line + col) * 4u, acc[i][j], C::epilogue_line);
        } else {
#pragma unroll
          for (int r = 0; r < I::c_registers / I::c_run; ++r) {
            const int at = (row + I::c_row(lane, r)) * C::epilogue_line + col + I::c_col(lane, r);
            Finished<C> x[I::c_run];
#pragma unroll
            for (int e = 0; e < I::c_run; ++e) x[e] = static_cast<Finished<C>>(sum_at(acc[i][j].x, r * I::c_run + e));
            ptx::st_shared(shared + unsigned(at) * 4u, pack<Finished<C>, I::c_run>(x));
          }
        }
      }
    }
    ptx::barrier_sync();
    // A thread handles four f32, because one 16-byte load reads them without bank conflicts. With eight f32, it could
    // store 16 bytes of f16, but would need two loads with a stride of 32 bytes and two-way conflicts.
    constexpr int vector = common_vector<4>(C::n);
#pragma unroll 1
    for (int at = int(threadIdx.x) * vector; at < C::tile_m * C::tile_n; at += C::threads * vector) {
      const int row = at / C::tile_n, col = at % C::tile_n;
      if (m0 + row >= C::m || n0 + col >= C::n) continue;
      const unsigned address = shared + unsigned(row * C::epilogue_line + col) * 4u;
      const auto loaded = ptx::ld_shared<vector * 4>(address);
      Finished<C> x[vector];
#pragma unroll
      for (int i = 0; i < vector; ++i) x[i] = get_element<Finished<C>>(loaded, i);
      finish_values<C, vector>(x, ends, ends.of_row(m0 + row), n0 + col);
      ptx::st_global(out + static_cast<long long>(m0 + row) * C::n + n0 + col, pack<Out, vector>(x));
      if constexpr (reduced_axis != ReducedAxis::none) ptx::st_shared(address, pack<float, vector>(x));
    }
  }
};

}  // namespace autosched
