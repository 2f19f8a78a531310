// The tile of C that a block computes, and with stream-K the sequence of parts of tiles.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// The part of one tile of C that a block computes: `count` k-tiles, from `first` on. `thread`: index of the calling
// thread.
template <class C>
struct MatmulWork {
  using Deal = StreamK<C::blocks, C::launched_blocks, C::tiles_k>;
  // With stream_k, the end of shared memory contains the block's current part of a tile, the next part, and the
  // remaining work, because the main loop leaves no registers for them.
  static constexpr int now_at = C::shared_bytes - 48, next_at = C::shared_bytes - 32, left_at = C::shared_bytes - 16;

  int batch, split, first, count, thread;
  TileIndex tile;

  // `id` identifies a tile of C and a split of its k.
  __device__ __forceinline__ MatmulWork(int id, int thread_, LaunchRaster order) : thread(thread_) {
    constexpr int tiles = C::tiles_m * C::tiles_n;
    constexpr bool batch_inner = C::batch_mapping == "inner";
    batch = batch_inner ? id % C::batch : id / (tiles * C::split_k);
    const int rest = batch_inner ? id / C::batch : id % (tiles * C::split_k);
    split = rest / tiles;
    tile = raster<false, C::tiles_m, C::tiles_n>(order, rest % tiles);
    first = split * C::tiles_of_split;
    count = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
  }
  // Returns the work of a block without stream_k.
  __device__ static __forceinline__ MatmulWork alone(LaunchRaster order) {
    return MatmulWork(int(blockIdx.x), int(threadIdx.x), order);
  }
  // With stream_k, the block's work is reloaded from shared memory whenever it is needed. A zero is loaded, too, and
  // added to the thread's index. Otherwise, the compiler would keep loop-invariant addresses in registers across all
  // tiles, and spill other values.
  __device__ static __forceinline__ MatmulWork now(unsigned shared, LaunchRaster order) {
    return kept_at(shared + unsigned(now_at), order);
  }
  __device__ static __forceinline__ MatmulWork next(unsigned shared, LaunchRaster order) {
    return kept_at(shared + unsigned(next_at), order);
  }
  __device__ static __forceinline__ MatmulWork kept_at(unsigned address, LaunchRaster order) {
    const auto kept = ptx::ld_shared<16>(address);
    MatmulWork work(int(kept.word[0]), int(threadIdx.x) + int(kept.word[3]), order);
    work.first = int(kept.word[1]);
    work.count = int(kept.word[2]);
    return work;
  }
  __device__ __forceinline__ int m0() const { return tile.m * C::tile_m; }
  __device__ __forceinline__ int n0() const { return tile.n * C::tile_n; }
  // subgroups are numbered row by row
  __device__ __forceinline__ int warp_m() const { return thread / 32 / C::subgroups_n; }
  __device__ __forceinline__ int warp_n() const { return thread / 32 % C::subgroups_n; }
  __device__ __forceinline__ int lane() const { return thread % 32; }

  // Iterates over the parts that a block computes. Every calling thread has its own counters.
  template <class Body>
  __device__ static __forceinline__ void for_each(LaunchRaster order, const Body& body) {
    if constexpr (C::stream_k) {
      auto walk = Deal::Walk::of(int(blockIdx.x));
#pragma unroll 1
      while (walk.left > 0) {
        const typename Deal::Part part = walk.next();
        MatmulWork work(part.tile, int(threadIdx.x), order);
        work.first = part.first;
        work.count = part.count;
        body(work);
      }
    } else {
      body(alone(order));
    }
  }

  // With stream_k, one thread of the block iterates over the block's parts. `begin` stores the first part in `next`.
  // `step` moves `next` to `now`, and stores the following part in `next`. After the last part, `next` has no k-tiles.
  __device__ static __forceinline__ void begin(unsigned shared) { keep_next(shared, Deal::Walk::of(int(blockIdx.x))); }
  __device__ static __forceinline__ void step(unsigned shared) {
    ptx::st_shared(shared + unsigned(now_at), ptx::ld_shared<16>(shared + unsigned(next_at)));
    const auto left = ptx::ld_shared<16>(shared + unsigned(left_at));
    keep_next(shared, {int(left.word[0]), int(left.word[1]), int(left.word[2]), int(left.word[3])});
  }
  __device__ static __forceinline__ void keep_next(unsigned shared, typename Deal::Walk walk) {
    const typename Deal::Part part = walk.next();
    ptx::st_shared(shared + unsigned(next_at),
                   AlignedVector<16>{{unsigned(part.tile), unsigned(part.first), unsigned(part.count), 0u}});
    ptx::st_shared(shared + unsigned(left_at), AlignedVector<16>{{unsigned(walk.tile), unsigned(walk.first),
                                                                  unsigned(walk.left), unsigned(walk.whole)}});
  }
};

}  // namespace autosched
