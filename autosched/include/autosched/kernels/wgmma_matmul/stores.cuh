// The stores of wgmma_matmul: applies the epilogue to a consumer's sums, and stores them to C from registers, or by TMA
// through shared memory.
#pragma once
#include <autosched/common/finish.cuh>
#include <autosched/intrinsics/wgmma_out.cuh>
#include <autosched/kernels/wgmma_matmul/plan.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched {

template <class Config>
struct WgmmaStores : WgmmaPlan<Config> {
  using Plan = WgmmaPlan<Config>;
  using typename Plan::Accumulators, typename Plan::Box, typename Plan::C, typename Plan::End, typename Plan::Out,
      typename Plan::Work;
  using Plan::boxes_n, Plan::fragments, Plan::of_boxes;
  static constexpr bool staged_whole = C::store_buffers == boxes_n * fragments;

  __device__ static __forceinline__ void store(Accumulators& acc, End ends, Out* out, const Work& work,
                                              int group) {
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32;
    constexpr int vector = C::n % 2 == 0 && !C::transposed ? 2 : 1;
    constexpr bool partial_m = C::m % C::tile_m != 0, partial_n = C::n % C::tile_n != 0;
    const int row0 = work.m0 + group * fragments * 64 + warp * 16 + lane / 4, col0 = work.n0 + lane % 4 * 2;
    Out* first = C::transposed ? out + (static_cast<long long>(work.batch) * C::n + col0) * C::m + row0
                               : out + (static_cast<long long>(work.batch) * C::m + row0) * C::n + col0;
    ends = ends.of_matrix(work.batch).at(C::transposed ? col0 : row0, C::transposed ? row0 : col0);
    float of_rows[fragments][2];
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // rows outside of C use the scale of the last row
        const int row = i * 64 + half * 8, last = C::m - 1 - row0;
        of_rows[i][half] = C::transposed ? 1.0f : ends.of_row(!partial_m || row < last ? row : last);
      }
    }
    // The outer loop is over columns, so that scales and bias of a column are loaded once and not kept in registers.
    //
    // If the activation has long code, this code is generated for only a part of the columns. The sums of the other
    // columns are moved to the registers of this part, one part after another. This halves the compile time and lets
    // the code fit in the instruction cache, at the cost of one or two moves per sum.
    constexpr int part = part_of_columns();
#pragma unroll 1
    for (int from = 0; from < C::tile_n; from += part) {
#pragma unroll
      for (int j = 0; j < part / 8 * (2 / vector); ++j) {
        const int e = j % (2 / vector), r0 = j / (2 / vector) * 4 + e, col = from + j / (2 / vector) * 8 + e;
        if (partial_n && col0 + col >= C::n) continue;
#pragma unroll
        for (int i = 0; i < fragments; ++i) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = i * 64 + half * 8;
            if (partial_m && row0 + row >= C::m) continue;
            if constexpr (C::transposed) {
              finish<C, 1>(acc[i], r0 + half * 2, ends, ends.of_row(col), first + static_cast<long long>(col) * C::m, row);
            } else {
              finish<C, vector>(acc[i], r0 + half * 2, ends, of_rows[i][half], first + static_cast<long long>(row) * C::n, col);
            }
          }
        }
      }
      move_down<part / 2 / Plan::paired>(acc);
    }
  }

  // Moves the sums of the next columns to the registers of the first columns, which have been stored.
  template <int Stored>
  __device__ static __forceinline__ void move_down(Accumulators& acc) {
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r + Stored < Plan::registers_n; ++r) acc[i][r] = acc[i][r + Stored];
    }
  }

  __host__ __device__ static constexpr int part_of_columns() {
    if (activation(C::activation) != Activation::gelu) return C::tile_n;
    return C::tile_n % 32 == 0 ? 32 : C::tile_n % 16 == 0 ? 16 : C::tile_n;
  }

  // Stores through shared memory, one box at a time: TMA stores a box while the next boxes are written. If all boxes of
  // a consumer's part of the tile fit into shared memory (staged_whole), they are stored together after one barrier.
  // If the block computes several tiles, an earlier barrier ensures that TMA has read the boxes of the previous tile
  // before they are overwritten.
  __device__ static __forceinline__ void store_boxes(Accumulators& acc, End ends, const ptx::TensorMap* out,
                                                     const Work& work, unsigned boxes, int group, int rows) {
    constexpr bool partial_n = C::n % C::tile_n != 0;
    const int col0 = work.n0 + int(threadIdx.x) % 4 * 2;
    const int row0 = work.m0 + rows * fragments * 64, barrier = of_boxes + group;
    const int row_of_thread = int(threadIdx.x) / 32 % 4 * 16 + int(threadIdx.x) % 32 / 4;
    boxes += unsigned(group * C::store_buffers * Box::bytes);
    ends = ends.of_matrix(work.batch).at(0, col0);
    float of_rows[fragments][2];
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // rows outside of C use the scale of the last row
        const int row = row0 + i * 64 + row_of_thread + half * 8;
        of_rows[i][half] = ends.of_row(row < C::m ? row : C::m - 1);
      }
    }
    if (staged_whole && C::several_tiles) {
      if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<0>();
      ptx::barrier_sync(barrier, 128);  // TMA has read the boxes of the previous tile
    }
    constexpr int together = part_of_columns() < C::tile_n ? 1 : boxes_n;  // columns first, in parts, as in `store`
#pragma unroll 1
    for (int from = 0; from < boxes_n; from += together) {
#pragma unroll
      for (int next = 0; next < together * fragments; ++next) {
        const int i = next % fragments, b = next / fragments, column = (from + b) * Box::width;
        const unsigned box = boxes + unsigned((from * fragments + next) % C::store_buffers * Box::bytes);
        Finished<C> x[Box::registers];
#pragma unroll
        for (int r = 0; r < Box::registers; r += 2) {
          const int col = column + r / 4 * 8;
          x[r] = static_cast<Finished<C>>(sum_at(acc[i], b * Box::registers + r));
          x[r + 1] = static_cast<Finished<C>>(sum_at(acc[i], b * Box::registers + r + 1));
          if (!partial_n || col0 + col < C::n) finish_values<C, 2>(&x[r], ends, of_rows[i][r / 2 % 2], col);
        }
        if constexpr (staged_whole) {
          Box::write(box, x);
          continue;
        }
        if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<C::store_buffers - 1>();
        ptx::barrier_sync(barrier, 128);  // TMA has read the previous contents of the box
        Box::write(box, x);
        ptx::fence_async_proxy();
        ptx::barrier_sync(barrier, 128);  // every thread has written its part
        if (threadIdx.x % 128 < 32 && ptx::elect()) {
          ptx::store_box(*out, work.n0 + column, row0 + i * 64, work.batch, box);
          ptx::commit_stores();
        }
      }
      move_down<together * Box::registers / Plan::paired>(acc);
    }
    if constexpr (staged_whole) {
      ptx::fence_async_proxy();
      ptx::barrier_sync(barrier, 128);  // every thread has written its part of all boxes
      if (threadIdx.x % 128 < 32 && ptx::elect()) {
#pragma unroll
        for (int next = 0; next < C::store_buffers; ++next) {
          ptx::store_box(*out, work.n0 + next / fragments * Box::width, row0 + next % fragments * 64, work.batch,
                         boxes + unsigned(next * Box::bytes));
        }
        ptx::commit_stores();
      }
    }
  }
};

}  // namespace autosched
