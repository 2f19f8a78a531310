// Definitions shared by all parts of wgmma_matmul: types, sizes, the shared-memory layout, and the rules that a config
// satisfies; the blocks of a cluster; the sequence of tiles of C that a block computes; the ring of stages.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/intrinsics/wgmma_copy.cuh>
#include <autosched/intrinsics/wgmma_out.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/warp/shuffle.cuh>
#include <autosched/ptx/warp/vote.cuh>

namespace autosched {

// Parameters that a launch passes as arguments, so that kernels that differ only in them share a module.
struct ByLaunch {
  LaunchRaster order;
  ptx::Evict evict_a, evict_b;  // L2 eviction priorities of the data that TMA loads
};

template <class Config>
struct WgmmaPlan {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;
  using A = WgmmaOperand<T, C::tile_m, C::tile_k, C::order_a == "row", C::swizzle_a>;
  using B = WgmmaOperand<T, C::tile_n, C::tile_k, C::order_b == "col", C::swizzle_b>;
  static constexpr bool a_in_registers = C::a_operand_source == "registers";
  using Sum = typename C::Sum;
  using End = EpilogueArgs<C, C::transposed ? C::n : C::m, C::transposed ? C::m : C::n>;

  using Box = WgmmaOutBox<Out, C::store_line>;

  static constexpr int consumer_threads = 128 * C::consumer_warpgroups, consumer_warps = 4 * C::consumer_warpgroups;
  // Number of consumers that share the rows of a tile.
  static constexpr int sharing = C::ping_pong ? 1 : C::consumer_warpgroups;
  static constexpr bool reallocates_registers = C::producer_registers > 0;
  static constexpr int fragments = C::tile_m / 64 / sharing;  // number of fragments (64 rows) per consumer
  static constexpr int paired = sums_of_register<Sum>;
  static constexpr int registers_n = C::tile_n / 2 / paired;  // accumulator registers per fragment
  static constexpr int boxes_n = C::tile_n / Box::width;      // number of boxes of out per fragment
  static constexpr int cluster = C::cluster_m * C::cluster_n;
  // Number of blocks of a cluster that read the copies of one block, including that block.
  static constexpr int peers = C::cluster_m + C::cluster_n - 1;
  // Number of work items: tiles of C times splits of k, divided by the number of blocks of a cluster. The blocks of a
  // cluster compute one work item together.
  static constexpr int works = C::blocks / cluster;
  // Number of clusters among which stream-K distributes k-tiles.
  static constexpr int workers = C::stream_k_blocks / cluster;
  using Deal = StreamK<works, workers, C::tiles_k>;
  static constexpr int boxes_at = C::stages * C::stage_bytes;
  static constexpr int barriers_at = boxes_at + C::consumer_warpgroups * C::store_buffers * Box::bytes;
  static constexpr int flag_at = barriers_at + 16 * C::stages;
  // Offset of the additional words of shifted lines. For each stage, the words of a are followed by the words of b.
  static constexpr int ends_at = flag_at + 16;
  // Number of lines of a tile that each block of a cluster copies.
  static constexpr int lines_a = A::lines / C::cluster_n, lines_b = B::lines / C::cluster_m;
  static constexpr bool threads_copy = C::access_a > 0 || C::access_b > 0;
  static constexpr int copying_threads = reallocates_registers ? 128 : 32;
  // Bytes of a stage that TMA copies.
  static constexpr int tma_bytes = (C::access_a ? 0 : A::bytes) + (C::access_b ? 0 : B::bytes);
  static constexpr int full_arrivals = threads_copy ? copying_threads + (tma_bytes > 0) : 1;
  using CopyA = WgmmaCopy<T, A, A::major ? C::m : C::k, A::major ? C::k : C::m, C::access_a, copying_threads>;
  using CopyB = WgmmaCopy<T, B, B::major ? C::n : C::k, B::major ? C::k : C::n, C::access_b, copying_threads>;
  // First ids of groups of named barriers. A group has one barrier per consumer.
  enum NamedBarrier { of_last_block = 1, of_turns = 2, of_boxes = 4 };

  static_assert(C::tile_m % (64 * sharing) == 0, "rule consumer_warpgroups: each consumer needs a multiple of 64 rows");
  static_assert(C::threads == consumer_threads + copying_threads,
                "rule threads: the consumers, and a producer warp, or a producer warpgroup if it releases registers");
  static_assert(!reallocates_registers ||
                    (C::producer_registers + C::consumer_warpgroups * C::consumer_registers) * 128 * C::min_blocks <= 65536,
                "rule consumer_registers: the registers of all warpgroups of an SM must fit");
  static_assert(C::accumulators == fragments * registers_n, "rule accumulators: must be the number for a consumer's rows");
  static_assert(C::stage_bytes == A::bytes + B::bytes && flag_at + 16 + C::ends_bytes * C::stages <= C::shared_bytes,
                "rule shared_memory: the stages, boxes of out and barriers must fit into the block's shared memory");
  static_assert(A::bytes % 1024 == 0 && C::stage_bytes % 1024 == 0,
                "rule alignment: stages and boxes must be multiples of 1024 bytes, the swizzle's period");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and the splits must cover all k-tiles");
  static_assert(!C::several_tiles || C::split_k == 1, "rule tiles_per_block: with split k, a block computes one tile");
  static_assert(!C::stream_k || (C::several_tiles && works > workers && works % workers != 0),
                "rule stream_k: stream-K needs several tiles per block, and a partial wave after full ones");
  static_assert(!C::stream_k || C::tiles_k > 1, "rule stream_k_tiles: stream-K needs k-tiles to distribute");
  static_assert(!C::ping_pong || (C::consumer_warpgroups == 2 && C::several_tiles),
                "rule ping_pong: needs two consumers and several tiles per block");
  static_assert(C::tiles_m % C::cluster_m == 0 && C::tiles_n % C::cluster_n == 0,
                "rule cluster: the tiles of out must be whole clusters");
  static_assert(lines_a % 8 == 0 && lines_a * C::cluster_n == A::lines && lines_b % 8 == 0 &&
                    lines_b * C::cluster_m == B::lines,
                "rule multicast: each block of a cluster must copy whole groups of 8 lines");
  static_assert((C::access_a == 0 || C::cluster_n == 1) && (C::access_b == 0 || C::cluster_m == 1),
                "rule copied: operands copied by threads cannot be multicast");
  static_assert(!threads_copy || !reallocates_registers || C::producer_registers >= (C::ends_bytes ? 64 : 48),
                "rule copying_registers: too few for threads that copy");
  static_assert(!a_in_registers || C::in_flight == 0,
                "rule a_operand_source: A in registers allows no multiplications in flight");
  static_assert(C::store_buffers == 0 || !C::transposed, "rule store_buffers: TMA can only store rows of C");
  static_assert(C::store_buffers == 0 || fragments * boxes_n % C::store_buffers == 0,
                "rule store_buffers: the buffers must divide the boxes of a tile");

  using Accumulators = Sum[fragments][registers_n];

  // The warp's number in the block. A shuffle lets ptxas know that it is warp-uniform. Values derived from it, such as
  // wgmma's descriptors and TMA's operands, are then in uniform registers.
  __device__ static __forceinline__ int warp() { return int(ptx::shfl_idx(threadIdx.x / 32, 0)); }

  // Position of this block in its cluster; ranks are numbered along m first.
  __device__ static __forceinline__ int rank() { return int(blockIdx.x) % cluster; }
  __device__ static __forceinline__ int rank_m() { return rank() % C::cluster_m; }
  __device__ static __forceinline__ int rank_n() { return rank() / C::cluster_m; }

  // One tile of C, or a part of its k-tiles.
  struct Work {
    int batch, split, m0, n0, first, tiles;  // first k-tile, and number of k-tiles
    int output_tile;
    int cut = 0;  // with stream_k, for a tile that two workers share: the worker that computes the first k-tiles

    // `id` numbers the groups of tiles that a cluster computes together.
    __device__ __forceinline__ Work(int id, LaunchRaster order) {
      constexpr int across_m = C::tiles_m / C::cluster_m, across_n = C::tiles_n / C::cluster_n;
      constexpr int of_matrix = across_m * across_n;
      batch = id / (of_matrix * C::split_k);
      const int rest = id % (of_matrix * C::split_k);
      split = rest / of_matrix;
      const TileIndex tile = raster<C::hilbert, across_m, across_n>(order, rest % of_matrix);
      const int tile_m = tile.m * C::cluster_m + rank_m(), tile_n = tile.n * C::cluster_n + rank_n();
      m0 = tile_m * C::tile_m;
      n0 = tile_n * C::tile_n;
      if constexpr (C::split_k == 1) {
        first = 0;
        tiles = C::tiles_k;
      } else {
        first = split * C::tiles_of_split;
        tiles = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
      }
      output_tile = (batch * C::tiles_m + tile_m) * C::tiles_n + tile_n;
    }
  };

  // Pipeline state: the current stage of the ring, which producers and consumers advance in the same order. Its
  // fields have the units that the main loop uses. So the main loop needs no multiplications and shifts.
  struct PipelineState {
    unsigned shared;
    unsigned start;        // start of the stage: its address in units of 16 bytes, or encoded for descriptors of wgmma
    unsigned barrier = 0;  // offset of the stage's barriers from the first stage's barriers
    unsigned parity = 0;   // parity of the number of completed rounds

    __device__ __forceinline__ explicit PipelineState(unsigned shared) : shared(shared), start(shared >> 4) {}
    __device__ __forceinline__ PipelineState for_descriptors() const {
      PipelineState state = *this;
      state.start = encoded_start(shared);
      return state;
    }
    // Address of the stage. Only for a state created for copies.
    __device__ __forceinline__ unsigned tile() const { return 16 * start; }
    // Address of the stage whose encoded start is `start`. Only for a state created for descriptors.
    __device__ __forceinline__ unsigned tile_at(unsigned start) const {
      return shared + 16 * (start - encoded_start(shared));
    }
    __device__ __forceinline__ unsigned full() const { return shared + unsigned(barriers_at) + barrier; }
    // The "empty" barrier of the previous stage. It is next to the "full" barrier of the current stage. So consumers
    // that release the previous stage can compute its address from the address of that "full" barrier.
    __device__ __forceinline__ unsigned empty_before() const { return full() + 8; }
    __device__ __forceinline__ unsigned empty() const {
      const unsigned next = barrier == unsigned(16 * C::stages - 16) ? 0 : barrier + 16;
      return shared + unsigned(barriers_at) + next + 8;
    }
    __device__ __forceinline__ unsigned ends() const {
      return shared + unsigned(ends_at) + barrier / 16 * unsigned(C::ends_bytes);
    }
    __device__ __forceinline__ void advance() {
      start += unsigned(C::stage_bytes / 16);
      barrier += 16;
      if (barrier == unsigned(16 * C::stages)) {
        start -= unsigned(C::stages * C::stage_bytes / 16);
        barrier = 0;
        parity ^= 1u;
      }
    }
    // Advances by `tiles` stages. Only for a state created for descriptors.
    __device__ __forceinline__ void skip(int tiles) {
      const unsigned count = barrier / 16 + unsigned(tiles), index = count % unsigned(C::stages);
      parity ^= count / unsigned(C::stages) & 1u;
      start = encoded_start(shared) + index * unsigned(C::stage_bytes / 16);
      barrier = 16 * index;
    }
  };

  __device__ static __forceinline__ void wait(unsigned barrier, unsigned parity) {
    while (!ptx::mbarrier_try_wait(barrier, parity)) {
    }
  }

  // All lanes of a warp wait together until each has seen the phase end. If lanes waited separately, ptxas would assume
  // divergence and keep the loop counters in per-lane registers, which must be moved for each descriptor of wgmma.
  __device__ static __forceinline__ void wait_together(unsigned barrier, unsigned parity) {
    while (!ptx::vote_all(ptx::mbarrier_try_wait(barrier, parity))) {
    }
  }

  // Calls `body` for every tile or part that this block computes. The arguments are the work, the number of earlier
  // calls, and whether another call follows.
  template <class Body>
  __device__ static __forceinline__ void for_each_work(LaunchRaster order, const Body& body) {
    const int id = int(blockIdx.x) / cluster;
    if constexpr (!C::several_tiles) {
      body(Work(id, order), 0, false);
    } else if constexpr (C::stream_k) {
      // The work is divided among stream_k_blocks blocks, independently of how many blocks run concurrently. This is
      // always correct, because a block only waits for the sums of a block that has already taken its ticket, and
      // therefore runs or has run.
      auto walk = Deal::Walk::of(id);
#pragma unroll 1
      for (int turn = 0; walk.left > 0; ++turn) {
        const typename Deal::Part part = walk.next();
        Work work(part.tile, order);
        work.first = part.first;
        work.tiles = part.count;
        work.cut = part.cut(id);
        body(work, turn, walk.left > 0);
      }
    } else {
      // Number of clusters in the grid: the number of workers, or fewer if fewer can run at the same time.
      const int launched = int(gridDim.x / unsigned(cluster));
#pragma unroll 1
      for (int next = id, turn = 0; next < works; next += launched, ++turn) {
        body(Work(next, order), turn, next + launched < works);
      }
    }
  }
};

}  // namespace autosched
