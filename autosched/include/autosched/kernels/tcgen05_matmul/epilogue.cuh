// Epilogue of tcgen05_matmul: four warps read finished sums from tensor memory. Each warp reads a quarter of the lanes,
// and each thread one row of C. The warps store the results from registers, or by TMA through boxes of 32 rows in
// shared memory. Blocks that share a tile exchange sums first.
#pragma once
#include <autosched/common/aligned_vector.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/kernels/tcgen05_matmul/plan.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Epilogue : Tcgen05Plan<Config> {
  using Plan = Tcgen05Plan<Config>;
  using typename Plan::C, typename Plan::End, typename Plan::Out, typename Plan::Sum, typename Plan::Sums, typename Plan::Work;
  using Plan::box_bytes, Plan::first_finishing_warp, Plan::pair;

  static constexpr int width = C::store_line / int(sizeof(Out));  // number of columns of a box
  // number of columns that a thread holds in registers at a time
  static constexpr int chunk = C::tile_n % 32 == 0 ? 32 : 16;
  // Number of adjacent elements that a thread stores at a time: at most 16 bytes, and at most the alignment of C's
  // rows.
  static constexpr int most = 16 / int(sizeof(Out));
  static constexpr int threads = 32 * Plan::finishing_warps, first_thread = 32 * first_finishing_warp;
  static constexpr int of_exchange = 1;  // named barrier of the threads that exchange sums
  static constexpr int vector = C::n % most == 0 ? most : C::n % (most / 2) == 0 ? most / 2 : C::n % 2 == 0 && most > 2 ? 2 : 1;
  static_assert(C::store_buffers == 0 || (C::tile_n % width == 0 && vector == most),
                "rule store_buffers: TMA stores whole boxes, and needs a row stride that is a multiple of 16 bytes");

  // The sums of a tile that belong to a thread. They are in tensor memory, or in registers if each k-tile is scaled.
  struct Tile {
    float registers[Plan::scaled_k_tiles ? C::tile_n : 1];
    unsigned from, empty;
    int lane;

    __device__ __forceinline__ void take(unsigned (&x)[chunk], int first) const {
      if constexpr (Plan::scaled_k_tiles) {
#pragma unroll
        for (int i = 0; i < chunk; ++i) x[i] = round_to<float>(registers[first + i]);
      } else {
        load(x, from, first, empty, lane);
      }
    }
  };

  __device__ static __forceinline__ void finish_tiles(const End& all_ends, Out* out, const ptx::TensorMap* out_map,
                                                      float* partials, unsigned* counters, LaunchRaster order,
                                                      unsigned shared, unsigned tensor, int warp) {
    const int quarter = warp % 4, lane = int(threadIdx.x) % 32;
    const unsigned boxes =
        shared + unsigned(Plan::boxes_at + (warp - first_finishing_warp) * C::store_buffers * box_bytes);
    const unsigned lanes = tensor + (unsigned(quarter * 32) << 16);
    Sums sums{shared};
    int box = 0;  // next box of this warp
    Plan::template for_each_work<Plan::Role::finishes>(shared, order, [&](const Work& work) {
      const int row = work.m0 + quarter * 32 + lane;
      const bool inside = C::m % C::tile_m == 0 || row < C::m;
      // For rows outside of C, scales of the last row are loaded; the results are not stored.
      const int row_inside = inside ? row : C::m - 1;
      Tile tile;
      tile.lane = lane;
      if constexpr (Plan::scaled_k_tiles) {
        add_scaled(tile.registers, sums, work, all_ends, lanes, row_inside, lane);
      } else {
        Plan::wait(sums.full(), sums.parity);
        ptx::tcgen05_fence_after_sync();
        tile.from = lanes + unsigned(sums.index * C::tile_n);
        tile.empty = sums.empty();
        sums.advance();
      }
      // another block's sums, which are added to this thread's sums; their columns are `threads` elements apart
      const float* other_sums = nullptr;
      if constexpr (C::split_k > 1) {
        if (!leave_split(tile, partials, counters, shared, work)) return;
        other_sums = partials + static_cast<long long>(work.output_tile) * C::split_k * C::tile_n * threads + finishing_thread();
      } else if constexpr (C::stream_k) {
        if (work.tiles < C::tiles_k) {
          other_sums = other_part(tile, partials, counters, shared, work);
          if (other_sums == nullptr) return;
        }
      }
      const End ends = C::transposed ? all_ends.of_matrix(work.batch).at(work.n0, row_inside)
                                     : all_ends.of_matrix(work.batch).at(0, work.n0);
      const float of_row = C::transposed ? 1.0f : ends.of_row(row_inside);
      for_chunks([&](int first) {
        unsigned x[chunk];
        if constexpr (C::split_k > 1) {
          add_splits(x, other_sums, first);
        } else {
          tile.take(x, first);
          if constexpr (C::stream_k) add(x, other_sums, first);
        }
        if constexpr (C::store_buffers > 0) {
          store_boxes(x, ends, of_row, out_map, work, first, boxes, box, quarter, lane);
        } else if constexpr (C::transposed) {
          Out* to = out + (static_cast<long long>(work.batch) * C::n + work.n0) * C::m + row;
          if (inside) store_column(x, ends, to, work.n0, first);
        } else if (inside) {
          Out* to = out + (static_cast<long long>(work.batch) * C::m + row) * C::n + work.n0;
          store_row(x, ends, of_row, to, work.n0, first);
        }
      });
    });
    if constexpr (C::store_buffers > 0) {
      if (ptx::elect()) ptx::wait_stores_read<0>();  // TMA must have read shared memory before the block exits
    }
  }

  __device__ static __forceinline__ int finishing_thread() { return int(threadIdx.x) - first_thread; }

  // Calls body(first column) for every chunk. Unrolled if register indices must be constant.
  template <class Body>
  __device__ static __forceinline__ void for_chunks(const Body& body) {
    constexpr int unrolled = Plan::scaled_k_tiles ? C::tile_n / chunk : 1;
#pragma unroll unrolled
    for (int first = 0; first < C::tile_n; first += chunk) body(first);
  }

  // Loads a chunk from tensor memory. After the last chunk of a tile, the buffer is released for the next tile.
  __device__ static __forceinline__ void load(unsigned (&x)[chunk], unsigned from, int first, unsigned empty, int lane) {
    ptx::tcgen05_load(x, from + unsigned(first));
    ptx::tcgen05_wait_loads();
    if (first + chunk == C::tile_n) {
      ptx::tcgen05_fence_before_sync();
      release(empty, lane);
    }
  }

  // Scales the sums of each k-tile, and adds them up. Tensor cores do not accumulate several k-tiles, because they
  // would add products of 8-bit floats with too few bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
  template <int Columns>
  __device__ static __forceinline__ void add_scaled(float (&total)[Columns], Sums& sums, const Work& work, const End& ends,
                                                    unsigned lanes, int row, int lane) {
    constexpr int block = 128, blocks_k = ceil_div(C::k, block), blocks_n = ceil_div(C::n, block);
    const float* of_a = ends.scale_a + (static_cast<long long>(work.batch) * C::m + row) * blocks_k + work.first;
    const float* of_b =
        ends.scale_b + (static_cast<long long>(work.batch) * blocks_n + work.n0 / block) * blocks_k + work.first;
#pragma unroll
    for (int i = 0; i < Columns; ++i) total[i] = 0;
#pragma unroll 1
    for (int t = 0; t < work.tiles; ++t, sums.advance()) {
      const float scale = End::number(of_a + t) * End::number(of_b + t);
      Plan::wait(sums.full(), sums.parity);
      ptx::tcgen05_fence_after_sync();
#pragma unroll
      for (int first = 0; first < C::tile_n; first += chunk) {
        unsigned x[chunk];
        load(x, lanes + unsigned(sums.index * C::tile_n), first, sums.empty(), lane);
#pragma unroll
        for (int i = 0; i < chunk; ++i) total[first + i] += scale * ptx::float_of(x[i]);
      }
    }
  }

  __device__ static __forceinline__ void leave(const Tile& tile, float* partials) {
    for_chunks([&](int first) {
      unsigned x[chunk];
      tile.take(x, first);
#pragma unroll
      for (int i = 0; i < chunk; ++i) ptx::st_global(partials + (first + i) * threads, AlignedVector<4>{{x[i]}});
    });
  }

  __device__ static __forceinline__ void add(unsigned (&x)[chunk], const float* other_sums, int first) {
    if (other_sums == nullptr) return;
#pragma unroll
    for (int i = 0; i < chunk; ++i) {
      const Sum other = Element<Sum>::of(ptx::ld_global_cg<4>(other_sums + (first + i) * threads).word[0]);
      x[i] = round_to<Sum>(Element<Sum>::of(x[i]) + other);
    }
  }

  // Stores this split's sums. Returns true if all splits of the tile have been stored, so that this block must finish
  // the tile.
  __device__ static __forceinline__ bool leave_split(const Tile& tile, float* partials, unsigned* counters, unsigned shared,
                                                     const Work& work) {
    const long long slot = static_cast<long long>(work.output_tile) * C::split_k + work.split;
    leave(tile, partials + slot * C::tile_n * threads + finishing_thread());
    return is_last_block<C::split_k, threads, first_thread>(counters + work.output_tile, shared + Plan::flag_at);
  }

  // Adds the splits in a fixed order, so that the result does not depend on which block is last.
  __device__ static __forceinline__ void add_splits(unsigned (&x)[chunk], const float* other_sums, int first) {
#pragma unroll
    for (int i = 0; i < chunk; ++i) x[i] = 0;
#pragma unroll 1
    for (int split = 0; split < C::split_k; ++split, other_sums += C::tile_n * threads) add(x, other_sums, first);
  }

  // For a tile that two blocks share: returns the other block's sums, or null if this block has passed its sums to the
  // other block.
  __device__ static __forceinline__ const float* other_part(const Tile& tile, float* partials, unsigned* counters,
                                                            unsigned shared, const Work& work) {
    const int slot = work.cut * pair + Plan::rank();
    const SharedTile<threads> two{counters + 2 * slot, shared + Plan::flag_at, finishing_thread(), of_exchange};
    float* sums = partials + static_cast<long long>(slot) * C::tile_n * threads + finishing_thread();
    if (two.is_first()) {
      leave(tile, sums);
      two.tell_stored();
      return nullptr;
    }
    two.wait_stored();
    return sums;
  }

  // When all lanes have read the sums, one lane signals the block that multiplies.
  __device__ static __forceinline__ void release(unsigned empty, int lane) {
    ptx::warp_sync();
    if (lane == 0) Plan::arrive_in_first(empty);
  }

  // Applies the epilogue to Count adjacent sums.
  template <int Count>
  __device__ static __forceinline__ void finish_neighbours(Finished<C> (&y)[Count], const unsigned* x, const End& ends,
                                                           float of_row, int column) {
#pragma unroll
    for (int i = 0; i < Count; ++i) y[i] = static_cast<Finished<C>>(Element<Sum>::of(x[i]));
    constexpr int together = Count < 2 ? 1 : 2;  // number of values processed at a time
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

  // Stores a transposed C, whose columns are rows of out. Adjacent lanes store adjacent elements of a row of out.
  __device__ static __forceinline__ void store_column(const unsigned (&x)[chunk], const End& ends, Out* to, int n0, int first) {
#pragma unroll
    for (int i = 0; i < chunk; ++i) {
      if (C::n % C::tile_n != 0 && n0 + first + i >= C::n) continue;
      Finished<C> y[1] = {static_cast<Finished<C>>(Element<Sum>::of(x[i]))};
      finish_values<C, 1>(y, ends, ends.of_row(first + i), 0);
      ptx::st_global(to + static_cast<long long>(first + i) * C::m, pack<Out, 1>(y));
    }
  }

  // Writes boxes of `width` columns. TMA stores each box as soon as it is complete, while threads write the next boxes.
  __device__ static __forceinline__ void store_boxes(const unsigned (&x)[chunk], const End& ends, float of_row,
                                                     const ptx::TensorMap* out, const Work& work, int first,
                                                     unsigned boxes, int& box, int quarter, int lane) {
#pragma unroll
    for (int i = 0; i < chunk; i += most) {
      const int within = (first + i) % width;
      if (within == 0) {
        if (ptx::elect()) ptx::wait_stores_read<C::store_buffers - 1>();
        ptx::warp_sync();  // TMA has read the previous contents of the box
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
