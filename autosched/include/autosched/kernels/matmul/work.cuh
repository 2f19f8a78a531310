// Which tile of C a block computes, and with stream-K which parts of which tiles, one behind another.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// What a block computes of one tile of C: `count` k-tiles, from `first` on. `thread` is that of the caller.
template <class C>
struct MatmulWork {
  using Deal = StreamK<C::blocks, C::launched_blocks, C::tiles_k>;
  // With stream_k the part of a tile that the block computes is kept at the end of its shared memory, and behind it
  // what is left for it: registers have no room for them beside the main loop.
  static constexpr int part_at = C::shared_bytes - 32, walk_at = C::shared_bytes - 16;

  int batch, split, first, count, thread;
  TileIndex tile;

  // `id` counts tiles of C, and of each the splits of k.
  __device__ __forceinline__ MatmulWork(int id, int thread_) : thread(thread_) {
    constexpr int tiles = C::tiles_m * C::tiles_n;
    constexpr bool batch_inner = C::batch_mapping == "inner";
    batch = batch_inner ? id % C::batch : id / (tiles * C::split_k);
    const int rest = batch_inner ? id / C::batch : id % (tiles * C::split_k);
    split = rest / tiles;
    tile = raster<raster_order(C::raster), raster_group(C::raster), C::tiles_m, C::tiles_n>(rest % tiles);
    first = split * C::tiles_of_split;
    count = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
  }
  // With stream_k all is read anew where it is needed, the 0 in the index of the thread, too: of what the compiler
  // knows to be the same for every tile, it keeps addresses in registers over all of them, and others are spilled.
  __device__ static __forceinline__ MatmulWork now(unsigned shared) {
    if constexpr (C::stream_k) {
      const auto kept = ptx::ld_shared<16>(shared + unsigned(part_at));
      MatmulWork work(int(kept.word[0]), int(threadIdx.x) + int(kept.word[3]));
      work.first = int(kept.word[1]);
      work.count = int(kept.word[2]);
      return work;
    } else {
      return MatmulWork(int(blockIdx.x), int(threadIdx.x));
    }
  }
  __device__ __forceinline__ int m0() const { return tile.m * C::tile_m; }
  __device__ __forceinline__ int n0() const { return tile.n * C::tile_n; }
  __device__ __forceinline__ int warp_m() const { return thread / 32 / C::sg_layout_n; }  // subgroups are row-major
  __device__ __forceinline__ int warp_n() const { return thread / 32 % C::sg_layout_n; }
  __device__ __forceinline__ int lane() const { return thread % 32; }

  // The loop over the parts of a block's tiles with stream_k: `begin`, then for each part `next`, which returns
  // whether there is one more, and keeps it for `now`.
  __device__ static __forceinline__ void begin(unsigned shared) {
    if (threadIdx.x == 0) keep(shared + unsigned(walk_at), Deal::Walk::of(int(blockIdx.x)));
  }
  __device__ static __forceinline__ bool next(unsigned shared) {
    if (threadIdx.x == 0) {
      const auto kept = ptx::ld_shared<16>(shared + unsigned(walk_at));
      typename Deal::Walk walk{int(kept.word[0]), int(kept.word[1]), int(kept.word[2]), int(kept.word[3])};
      const typename Deal::Part part = walk.next();
      ptx::st_shared(shared + unsigned(part_at),
                     AlignedVector<16>{{unsigned(part.tile), unsigned(part.first), unsigned(part.count), 0u}});
      keep(shared + unsigned(walk_at), walk);
    }
    ptx::barrier_sync();  // the part is kept
    return ptx::ld_shared<16>(shared + unsigned(part_at)).word[2] != 0;
  }
  __device__ static __forceinline__ void keep(unsigned address, const typename Deal::Walk& walk) {
    ptx::st_shared(address, AlignedVector<16>{{unsigned(walk.tile), unsigned(walk.first), unsigned(walk.left),
                                               unsigned(walk.whole)}});
  }
};

}  // namespace autosched
