// The ends of tcgen05_matmul: four warps take finished sums from tensor memory, each its quarter of the lanes, one row of C
// to a thread, and store them from registers, or through boxes of 32 rows in shared memory by TMA.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/kernels/tcgen05_matmul/plan.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/tensor_map.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Epilogue : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::C, typename Plan::End, typename Plan::Out, typename Plan::Sum, typename Plan::Sums, typename Plan::Work;
  using Plan::box_bytes, Plan::first_finishing_warp, Plan::pair;

  static constexpr int width = C::store_line / int(sizeof(Out));  // columns of a box
  static constexpr int chunk = C::tile_n % 32 == 0 ? 32 : 16;     // columns that a thread holds at a time
  // Neighbours that are stored at a time: at most 16 bytes, and as many as rows of C are aligned to.
  static constexpr int most = 16 / int(sizeof(Out));
  static constexpr int vector = C::n % most == 0 ? most : C::n % (most / 2) == 0 ? most / 2 : C::n % 2 == 0 && most > 2 ? 2 : 1;
  static_assert(C::store_buffers == 0 || (C::tile_n % width == 0 && vector == most),
                "rule store_buffers: TMA stores whole boxes, of rows that are a multiple of 16 bytes apart");

  __device__ static __forceinline__ void finish_tiles(const End& all_ends, Out* out, const ptx::TensorMap* out_map,
                                                      unsigned shared, unsigned tensor, int warp) {
    const int quarter = warp % 4, lane = int(threadIdx.x) % 32;
    const unsigned boxes =
        shared + unsigned(Plan::boxes_at + (warp - first_finishing_warp) * C::store_buffers * box_bytes);
    Sums sums{shared};
    int box = 0;  // of this warp's, the next one
    Plan::for_each_work([&](const Work& work) {
      Plan::wait(sums.full(), sums.parity);
      ptx::tcgen05_fence_after_sync();
      const unsigned from = tensor + (unsigned(quarter * 32) << 16) + unsigned(sums.place * C::tile_n);
      const int row = work.m0 + quarter * 32 + lane;
      const bool inside = C::m % C::tile_m == 0 || row < C::m;
      // Of rows outside of C what scales the last one inside, which is read anyway.
      const End ends = all_ends.of_matrix(work.batch).at(0, work.n0);
      const float of_row = ends.of_row(inside ? row : C::m - 1);
#pragma unroll 1
      for (int first = 0; first < C::tile_n; first += chunk) {
        unsigned x[chunk];
        ptx::tcgen05_load(x, from + unsigned(first));
        ptx::tcgen05_wait_loads();
        if (first + chunk == C::tile_n) {  // the last one: the next tile may be multiplied
          ptx::tcgen05_fence_before_sync();
          release(sums.empty(), lane);
        }
        if constexpr (C::store_buffers > 0) {
          store_boxes(x, ends, of_row, out_map, work, first, boxes, box, quarter, lane);
        } else if (inside) {
          Out* to = out + (static_cast<long long>(work.batch) * C::m + row) * C::n + work.n0;
          store_row(x, ends, of_row, to, work.n0, first);
        }
      }
      sums.advance();
    });
    if constexpr (C::store_buffers > 0) {
      if (ptx::elect()) ptx::wait_stores_read<0>();  // shared memory is the block's until it exits
    }
  }

  // All lanes have read: one of them says so to the block that multiplies.
  __device__ static __forceinline__ void release(unsigned empty, int lane) {
    ptx::warp_sync();
    if (lane != 0) return;
    if constexpr (pair == 2) {
      ptx::mbarrier_arrive_in_cluster(Plan::in_first(empty));
    } else {
      ptx::mbarrier_arrive(empty);
    }
  }

  // Sums of Count neighbours, finished.
  template <int Count>
  __device__ static __forceinline__ void finish_neighbours(Finished<C> (&y)[Count], const unsigned* x, const End& ends,
                                                           float of_row, int column) {
#pragma unroll
    for (int i = 0; i < Count; ++i) y[i] = static_cast<Finished<C>>(Element<Sum>::of(x[i]));
    constexpr int together = Count < 2 ? 1 : 2;  // what is read for them at a time
#pragma unroll
    for (int i = 0; i < Count; i += together) finish_values<C, together>(&y[i], ends, of_row, column + i);
  }

  __device__ static __forceinline__ void store_row(const unsigned (&x)[chunk], const End& ends, float of_row, Out* row,
                                                   int n0, int first) {
#pragma unroll
    for (int i = 0; i < chunk; i += vector) {
      if (C::n % C::tile_n != 0 && n0 + first + i >= C::n) continue;
      Finished<C> y[vector];
      finish_neighbours(y, x + i, ends, of_row, first + i);
      ptx::st_global(row + first + i, pack<Out, vector>(y));
    }
  }

  // To boxes of `width` columns, as soon as they are complete: TMA stores one while the next ones are written.
  __device__ static __forceinline__ void store_boxes(const unsigned (&x)[chunk], const End& ends, float of_row,
                                                     const ptx::TensorMap* out, const Work& work, int first,
                                                     unsigned boxes, int& box, int quarter, int lane) {
#pragma unroll
    for (int i = 0; i < chunk; i += most) {
      const int within = (first + i) % width;
      if (within == 0) {
        if (ptx::elect()) ptx::wait_stores_read<C::store_buffers - 1>();
        ptx::warp_sync();  // what the box held has been read
      }
      Finished<C> y[most];
#pragma unroll
      for (int e = 0; e < most; ++e) y[e] = Finished<C>{};
      if (C::n % C::tile_n == 0 || work.n0 + first + i < C::n) finish_neighbours(y, x + i, ends, of_row, first + i);
      const unsigned linear = unsigned(lane * C::store_line + within * int(sizeof(Out)));
      const unsigned at = linear ^ ((linear >> 7 & (C::store_line / 16 - 1)) << 4);
      ptx::st_shared(boxes + unsigned(box * box_bytes) + at, pack<Out, most>(y));
      if (within + most == width) {
        ptx::fence_async_proxy();
        ptx::warp_sync();  // every lane has written its row
        if (ptx::elect()) {
          ptx::store_box(*out, work.n0 + first + i - within, work.m0 + quarter * 32, work.batch,
                         boxes + unsigned(box * box_bytes));
          ptx::commit_stores();
        }
        box = box + 1 == C::store_buffers ? 0 : box + 1;
      }
    }
  }
};

}  // namespace autosched
