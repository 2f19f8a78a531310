// C = epilogue(A * B). One block computes a tile_m x tile_n tile of C, for one split of K. Operands are staged through
// shared memory. The loop is that of the XeTile RFC, appendix 2.4: cooperative loads of a later k-tile overlap the
// arithmetic of the current k-tile. With stream_k, a block computes several tiles, and parts of the last tiles.
//
// Config: the parameters and attributes of search_spaces/templates/matmul/space.py, and what its lowering.py adds:
//   problem    m, n, k, batch, order_a, order_b, scale, has_bias, activation, reduction,
//              and the types T (of A and B) and Out
//   Intrinsic  the instruction that multiplies fragments; with block scales also scale_order and scale_blocks (per line)
//   operands   LayoutA, LayoutB; with the suffixes _a and _b: copy_store (elements that a copy stores at a time),
//              access (vector, row, col, rows or trans: how the intrinsic reads the tile), access_vector (number of
//              elements of an access), leading_dimension (0 if the tile has none)
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/intrinsics/fma.cuh>
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/intrinsics/wmma.cuh>
#include <autosched/kernels/matmul/epilogue.cuh>
#include <autosched/kernels/matmul/loader.cuh>
#include <autosched/kernels/matmul/main_loop.cuh>
#include <autosched/kernels/matmul/operands.cuh>
#include <autosched/kernels/matmul/reduction.cuh>
#include <autosched/kernels/matmul/split_k.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/kernels/matmul/work.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class Config>
struct Matmul {
  using C = Config;
  using I = typename C::Intrinsic;
  using A = OperandA<C>;
  using B = OperandB<C>;
  using T = typename C::T;
  using Out = typename C::Out;
  using Loader = MatmulLoader<C>;
  using Loop = MatmulLoop<C>;
  using Work = MatmulWork<C>;
  using Warp = WarpTile<C>;
  static constexpr bool epilogue_shared = C::epilogue == "shared";
  static constexpr ReducedAxis reduced_axis = reduced_axis_of(C::reduction);

  static_assert(C::tile_m % (C::subgroups_m * C::sg_data_m) == 0 && C::tile_n % (C::subgroups_n * C::sg_data_n) == 0,
                "rule wg_map: sg_layout x sg_data must divide the workgroup tile");
  static_assert(C::sg_data_m % I::m == 0 && C::sg_data_n % I::n == 0 && C::tile_k % I::k == 0,
                "rule fragments: sg_data and tile_k must be multiples of the intrinsic's shape");
  static_assert(C::unroll >= 1 && C::tile_k / I::k % C::unroll == 0,
                "rule unroll: the unroll must divide the intrinsic steps of tile_k");
  static_assert(C::fragment_buffers == 1 || (A::copy_async && B::copy_async && C::stages >= 2),
                "rule fragment_copies: loading fragments of the next k-tile needs cp.async and a further stage");
  static_assert(C::fragment_buffers == 1 || (C::fragment_buffers == 2 && C::intrinsic.starts_with("mma_") &&
                                             C::tile_k / I::k % 2 == 0 && C::unroll == C::tile_k / I::k),
                "rule fragment_steps: two buffers of fragments need mma.sync and an even, unrolled number of steps");
  static_assert(!I::opaque || epilogue_shared,
                "rule epilogue: wmma accumulators require shared memory");
  static_assert(reduced_axis == ReducedAxis::none || epilogue_shared,
                "rule epilogue: a reduction needs C in shared memory");
  static_assert(C::stages >= 1 && C::stages <= 5, "rule stages: 1 to 5 pipeline stages");
  static_assert(C::threads == C::subgroups_m * C::subgroups_n * 32 && C::threads <= 1024,
                "rule threads: 32 threads per subgroup, at most 1024 per block");
  static_assert(C::tiles_m * C::tile_m >= C::m && C::tiles_n * C::tile_n >= C::n && C::tiles_k * C::tile_k >= C::k,
                "rule tiles: the tiles must cover the matrices");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and the splits must cover all k-tiles");
  static_assert(C::stage_bytes == A::stage_bytes + B::stage_bytes && C::stages * C::stage_bytes <= C::shared_bytes,
                "rule shared_memory: the stages must fit into the block's shared memory");
  static_assert(!epilogue_shared || C::epilogue_bytes <= C::shared_bytes,
                "rule shared_memory: the tile of C must fit into the block's shared memory");

  static_assert(!C::stream_k || (C::intrinsic.starts_with("mma_") && reduced_axis == ReducedAxis::none),
                "rule stream_k_intrinsic: stream-K requires mma.sync, and no reduction");
  static_assert(!C::stream_k || C::split_k == 1, "rule stream_k_split: split k and stream-K exclude each other");
  static_assert(!C::stream_k || (C::blocks > C::launched_blocks && C::blocks % C::launched_blocks != 0),
                "rule stream_k_waves: stream-K needs a partial wave after full ones");
  static_assert(!C::stream_k || C::tiles_k > 1, "rule stream_k_tiles: stream-K needs k-tiles to distribute");

  using Accumulators = typename Warp::Accumulators;
  static_assert(sizeof(Accumulators) == C::accumulators * sizeof(typename Warp::Sum),
                "rule accumulators: the fragments of a warp must cover its part of the tile");

  static_assert(!C::early_copies || (C::stages > 1 && (!epilogue_shared || C::epilogue_bytes <= C::stage_bytes)),
                "rule stages: early copies need a further stage for results");

  // With early copies, the first k-tiles of the next part are copied while the current results are stored. These copies
  // use all stages except the last, which then holds results and exchanged sums.
  static constexpr int leave_at = C::early_copies ? (C::stages - 1) * C::stage_bytes : 0;

  __device__ static __forceinline__ void run(const T* a, const T* b, const EpilogueArgs<C>& ends, Out* out, float* partials,
                                             unsigned* counters, float* reduced, float* parts,
                                             unsigned* band_counters, LaunchRaster order,
                                             const unsigned char* block_scale_a, const unsigned char* block_scale_b) {
    const unsigned shared = ptx::shared_memory();
    if constexpr (C::stream_k) {
      if (threadIdx.x == 0) Work::begin(shared);
      ptx::barrier_sync();  // the first part is known
      start(Work::next(shared, order), shared, a, b);
#pragma unroll 1
      while (true) {
        Accumulators acc = {};
        const Work work = Work::next(shared, order);
        Loader loader = loader_of(work, Loop::ahead, shared, a, b);
        Loop::multiply(acc, loader, scales_of(work, block_scale_a, block_scale_b), work.count, work.warp_m(), work.warp_n(), work.lane());
        if (threadIdx.x == 0) Work::step(shared);
        ptx::barrier_sync();  // the next part is known, and all threads have read the last k-tile
        if constexpr (C::early_copies) start(Work::next(shared, order), shared, a, b);
        if (has_all<C>(acc, Work::now(shared, order), shared + leave_at, partials, counters, 0)) {
          store(acc, Work::now(shared, order), shared + leave_at, ends, out, reduced, parts, band_counters);
        }
        if (Work::next(shared, order).count == 0) break;
        if constexpr (!C::early_copies) {
          ptx::barrier_sync();  // all threads have read the data that the next tile overwrites
          start(Work::next(shared, order), shared, a, b);
        }
      }
    } else {
      Accumulators acc = {};
      const Work work = Work::alone(order);
      Loader loader = loader_of(work, 0, shared, a, b);
      Loop::start(loader, work.count);
      Loop::multiply(acc, loader, scales_of(work, block_scale_a, block_scale_b), work.count, work.warp_m(), work.warp_n(), work.lane());
      if (has_all<C>(acc, work, shared, partials, counters, 0)) {
        store(acc, work, shared, ends, out, reduced, parts, band_counters);
      }
    }
  }

  // Returns the loader of a part's k-tiles, without the first `skipped` k-tiles.
  __device__ static __forceinline__ Loader loader_of(const Work& work, int skipped, unsigned shared, const T* a,
                                                     const T* b) {
    const int m0 = work.m0(), n0 = work.n0(), k0 = (work.first + skipped) * C::tile_k, thread = work.thread;
    a += static_cast<long long>(work.batch) * C::m * C::k;
    b += static_cast<long long>(work.batch) * C::k * C::n;
    return {A::row_major ? typename A::Copy(a, m0, k0, thread) : typename A::Copy(a, k0, m0, thread),
            B::row_major ? typename B::Copy(b, k0, n0, thread) : typename B::Copy(b, n0, k0, thread), shared};
  }
  __device__ static __forceinline__ typename Loop::Scales scales_of(const Work& work, const unsigned char* scale_a,
                                                                    const unsigned char* scale_b) {
    if constexpr (scales_blocks<I>(0)) {
      return {scale_a, scale_b, work};
    } else {
      return {};
    }
  }
  __device__ static __forceinline__ void start(const Work& work, unsigned shared, const T* a, const T* b) {
    Loader loader = loader_of(work, 0, shared, a, b);
    Loop::start(loader, work.count);
  }

  // Stores a tile, and reduces it if the problem has a reduction.
  __device__ static __forceinline__ void store(Accumulators& acc, const Work& work, unsigned shared, EpilogueArgs<C> ends,
                                               Out* out, float* reduced, float* parts, unsigned* band_counters) {
    const TileIndex tile = work.tile;
    const int batch = work.batch, m0 = work.m0(), n0 = work.n0();
    const int warp_m = work.warp_m(), warp_n = work.warp_n(), lane = work.lane();
    out += static_cast<long long>(batch) * C::m * C::n;
    ends = ends.of_matrix(batch);
    MatmulEpilogue<C>::store(acc, shared, ends, out, m0, n0, warp_m, warp_n, lane);
    if constexpr (reduced_axis != ReducedAxis::none) reduce_tile<C>(shared, reduced, parts, band_counters, batch, tile);
  }
};

template <class Config>
__device__ __forceinline__ void matmul(const typename Config::T* a, const typename Config::T* b,
                                       const float* scale_a, const float* scale_b, const typename Config::Out* bias,
                                       typename Config::Out* out, float* partials, unsigned* counters, float* reduced,
                                       float* parts, unsigned* band_counters, int raster,
                                       const unsigned char* block_scale_a = nullptr,
                                       const unsigned char* block_scale_b = nullptr) {
  Matmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, partials, counters, reduced, parts, band_counters,
                      LaunchRaster{raster}, block_scale_a, block_scale_b);
}

}  // namespace autosched
