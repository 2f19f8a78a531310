// Stream-K: the k-tiles of the last tiles of C are distributed evenly over all workers, so that all workers finish
// together. The method is "Data-parallel + two-tile Stream-K": Osama, Merrill, Cecka, Garland and Owens, PPoPP 2023,
// section 5.2.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// Distributes Tiles tiles, which have KTiles k-tiles each, among Workers concurrent blocks or clusters.
template <int Tiles, int Workers, int KTiles>
struct StreamK {
  // Number of tiles whose k-tiles are distributed: the tiles of the last full wave and of the partial wave after it. A
  // worker gets at least as many k-tiles as one tile has, and less than twice as many. So at most two workers share a
  // tile.
  static constexpr int dealt_tiles = Workers + Tiles % Workers;

  // Index of a worker's first k-tile among the k-tiles of all distributed tiles.
  __device__ static __forceinline__ int first_dealt(int worker) {
    return int(static_cast<long long>(worker) * (dealt_tiles * KTiles) / Workers);
  }

  // A part of a tile: `count` k-tiles, from k-tile `first` on.
  struct Part {
    int tile, first, count;

    // The worker that computes the first k-tiles of this tile, if two workers share the tile.
    __device__ __forceinline__ int cut(int worker) const { return first > 0 ? worker - 1 : worker; }
  };

  // The remaining work of a worker: first its share of the distributed tiles, then complete tiles.
  struct Walk {
    int tile, first, left;  // tile and first k-tile of the next part; number of remaining distributed k-tiles
    int whole;              // the next complete tile of this worker

    __device__ static __forceinline__ Walk of(int worker) {
      const int dealt = first_dealt(worker);
      return {dealt / KTiles, dealt % KTiles, first_dealt(worker + 1) - dealt, dealt_tiles + worker};
    }
    // Returns the next part; after the last one, a part without k-tiles.
    __device__ __forceinline__ Part next() {
      const Part part{tile, first, left < KTiles - first ? left : KTiles - first};
      left -= part.count;
      first = 0;
      ++tile;
      if (left == 0 && whole < Tiles) {
        tile = whole;
        whole += Workers;
        left = KTiles;
      }
      return part;
    }
  };
};

// Two workers that share a tile, with Threads threads each. The first worker stores its sums in memory, and the second
// worker adds them to its own sums. The worker that takes its ticket first is the first one. The result does not depend
// on the order of the workers, because addition is commutative. The second worker waits only for a worker that has
// started, so no block waits for a block that has not started.
//
// Each pair of workers has two `counters` (tickets, and stored sums), which are zero before and after the launch.
// `flag` is the address of 4 bytes of shared memory. `barrier` is a named barrier of the worker's threads. All these
// threads must call each function.
template <int Threads>
struct SharedTile {
  unsigned* counters;
  unsigned flag;
  int thread, barrier;

  // Returns true if these threads are first: they must store their sums and call tell_stored. The threads of the second
  // worker must call wait_stored.
  __device__ __forceinline__ bool is_first() const { return is_first(ticket(counters, thread)); }

  // A worker may take its ticket when it starts its work, and pass it to is_first later. Then it need not wait for a
  // ticket when it finishes, and the worker that started first is first.
  __device__ static __forceinline__ unsigned ticket(unsigned* counters, int thread) {
    return thread == 0 ? ptx::atomic_add(counters, 1u) : 0u;
  }
  __device__ __forceinline__ bool is_first(unsigned ticket) const {
    if (thread == 0) ptx::st_shared(flag, AlignedVector<4>{{ticket}});
    ptx::barrier_sync(barrier, Threads);
    return ptx::ld_shared<4>(flag).word[0] == 0;
  }
  __device__ __forceinline__ void tell_stored() const {
    unsigned* stored = counters + 1;
    ptx::barrier_sync(barrier, Threads);  // all threads have stored their sums
    if (thread == 0) {
      ptx::fence_gpu();  // cumulative: also orders the stores before the barrier (PTX ISA 8.9)
      ptx::atomic_add(stored, 1u);
    }
  }
  __device__ __forceinline__ void wait_stored() const {
    unsigned *tickets = counters, *stored = counters + 1;
    if (thread == 0) {
      while (ptx::ld_acquire(stored) == 0) {
      }
      ptx::atomic_add(tickets, -2u);
      ptx::atomic_add(stored, -1u);  // ready for the next launch
    }
    ptx::barrier_sync(barrier, Threads);
  }
};

// Combines the register sums of two workers through the array `sums` in memory, which has Sums * Threads values.
// Returns true if the calling threads must finish the tile.
template <int Sums, int Threads, class Sum>
__device__ __forceinline__ bool add_other_part(Sum* registers, float* sums, unsigned* counters, unsigned flag,
                                               int thread, int barrier) {
  constexpr int vector = Sums % 4 == 0 ? 4 : 2;
  static_assert(Sums % vector == 0, "the number of registers must be even");
  const SharedTile<Threads> tile{counters, flag, thread, barrier};
  sums += thread * vector;
  if (tile.is_first()) {
#pragma unroll
    for (int r = 0; r < Sums; r += vector) ptx::st_global(sums + r * Threads, pack<Sum, vector>(registers + r));
    tile.tell_stored();
    return false;
  }
  tile.wait_stored();
#pragma unroll
  for (int r = 0; r < Sums; r += vector) {
    const auto other = ptx::ld_global_cg<4 * vector>(sums + r * Threads);
#pragma unroll
    for (int i = 0; i < vector; ++i) registers[r + i] += Element<Sum>::of(other.word[i]);
  }
  return true;
}

}  // namespace autosched
