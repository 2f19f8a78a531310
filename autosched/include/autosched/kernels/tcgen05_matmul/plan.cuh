// Definitions shared by all parts of tcgen05_matmul: types, sizes, the shared-memory layout, and the rules that a
// config satisfies; the blocks of a pair; the sequence of tiles of C that a block computes; the rings of stages and of
// sums.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/intrinsics/tcgen05.cuh>
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/ptx/cluster_launch_control.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched {

template <class Config>
struct Tcgen05Plan {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;
  using Sum = typename C::Sum;
  using End = EpilogueArgs<C, C::transposed ? C::n : C::m, C::transposed ? C::m : C::n>;
  static constexpr int pair = C::tile_m / 128;  // number of blocks that compute a tile together
  static constexpr int rows = 128;              // rows of A and C per block
  using A = WgmmaOperand<T, rows, C::tile_k, C::order_a == "row", C::swizzle_a>;
  using B = WgmmaOperand<T, C::tile_n / pair, C::tile_k, C::order_b == "col", C::swizzle_b>;

  // Block scales along k follow the operands of a stage. A word holds four scales of one line, so the words of 128
  // lines take 512 bytes. In tensor memory, each stage has its own columns for scales, after the sums, so that scales
  // are not overwritten before they are used.

  // Number of scales per line and multiplication; 0 without block scales.
  static constexpr int scales = C::scales_of_step;
  // Number of words of scales per line in a stage.
  static constexpr int words = C::tile_k * int(sizeof(T)) / A::k_bytes * scales / 4;
  // Number of groups into which b's scales are divided; a group has the scales of 128 lines.
  static constexpr int lines_b = ceil_div(C::tile_n, 128);
  static constexpr int scale_bytes = words * 512 * (1 + lines_b), scales_at = A::bytes + B::bytes;
  static constexpr int word_columns = 4 * (1 + lines_b), scale_columns = words * word_columns;

  static constexpr int producing_warp = 0, multiplying_warp = 1, first_finishing_warp = 2, finishing_warps = 4;
  // Number of tiles of C times splits of k. A pair of blocks, or a single block, computes one split of one tile.
  static constexpr int works = C::blocks;
  using Deal = StreamK<works, C::stream_k_blocks / pair, C::tiles_k>;
  static constexpr bool scaled_k_tiles = C::scale == "block";  // true if each k-tile has separate sums
  static constexpr bool asks = C::tile_scheduler == "launch_control";  // true if a block requests its next tile
  static constexpr int box_bytes = 32 * C::store_line;  // bytes of a warp's box of C in shared memory
  static constexpr int boxes_at = C::stages * C::stage_bytes;
  static constexpr int barriers_at = boxes_at + finishing_warps * C::store_buffers * box_bytes;
  static constexpr int sums_barriers_at = barriers_at + 16 * C::stages;
  static constexpr int address_at = sums_barriers_at + 16 * C::sum_buffers, flag_at = address_at + 4;
  // Cluster launch control: maximum number of tiles that are requested before the first one is finished.
  static constexpr int answers = 3, answers_at = address_at + 16, answer_barriers_at = answers_at + 16 * answers;
  static constexpr int bytes = asks ? answer_barriers_at + 16 * answers : answers_at;

  static_assert(C::tile_m == 128 || C::tile_m == 256, "rule tile_m: each block of a pair, or a single block, computes 128 rows");
  static_assert(C::threads == 32 * (first_finishing_warp + finishing_warps),
                "rule threads: one warp copies, one multiplies, and four run the epilogue");
  static_assert(C::tile_n % 16 == 0 && C::tile_n <= 256 &&
                    (Tcgen05Type<T>::kind != ptx::Tcgen05Kind::i8 || C::tile_n % (16 * pair) == 0),
                "rule columns: invalid n of tcgen05.mma");
  static_assert(C::sum_buffers * C::tile_n + C::stages * scale_columns <= C::tensor_columns && C::tensor_columns <= 512,
                "rule tensor_memory: the sums of a block's tiles in flight and the scales of stages must fit");
  static_assert(scales == 0 || C::k * int(sizeof(T)) % A::k_bytes == 0, "rule scale_steps: a k-tile needs whole multiplications");
  static_assert(scales == 0 || (C::tile_n % 128 == 0 && C::scale_order == "tiled"),
                "rule scale_tiles: scales need whole tiles of 128 columns");
  static_assert(C::stage_bytes == scales_at + ceil_div(scale_bytes, 1024) * 1024 && bytes <= C::shared_bytes,
                "rule shared_memory: the stages, boxes of out and barriers must fit into the block's shared memory");
  static_assert(A::bytes % 1024 == 0 && B::bytes % 1024 == 0,
                "rule alignment: stages and boxes must be multiples of 1024 bytes, the swizzle's period");
  static_assert(C::sum_buffers == 1 || C::several_tiles || scaled_k_tiles,
                "rule sum_buffers: a block with one tile needs only one buffer of sums");
  static_assert(!scaled_k_tiles || (C::tile_k == 128 && 128 % C::tile_n == 0 && !C::transposed),
                "rule scales: block scales must cover a k-tile and whole groups of columns");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and the splits must cover all k-tiles");
  static_assert(!C::several_tiles || C::split_k == 1, "rule tiles_per_block: with split k, a block computes one tile");
  static_assert(!C::stream_k || (C::several_tiles && works * pair > C::stream_k_blocks &&
                                 works * pair % C::stream_k_blocks != 0 && C::tiles_k > 1),
                "rule stream_k: stream-K needs several tiles per block, and a partial wave after full ones");
  static_assert(!asks || (C::several_tiles && !C::stream_k),
                "rule tile_scheduler: launch control needs a block of the grid for each tile");
  static_assert(C::store_buffers == 0 || !C::transposed, "rule store_buffers: TMA can only store rows of C");

  // A shuffle lets ptxas know that the value is warp-uniform.
  __device__ static __forceinline__ int warp() { return int(ptx::shfl_idx(threadIdx.x / 32, 0)); }
  __device__ static __forceinline__ int rank() { return pair == 1 ? 0 : int(blockIdx.x) % 2; }

  // Address in the first block of a pair that corresponds to `address` in either block: the cluster addresses of the
  // two blocks differ by one bit.
  __device__ static __forceinline__ unsigned in_first(unsigned address) {
    return pair == 1 ? address : address & 0xfeffffffu;
  }

  // The work on one tile of C: all of k, or a part of k.
  struct Work {
    int batch, split, m0, n0;  // m0: first row of this block; n0: first column of the tile
    int first, tiles;          // first k-tile, and number of k-tiles
    int output_tile;           // index of this block's output tile: with a pair of blocks, half of the pair's tile
    // with stream_k, for a tile that two workers share: the worker that computes the first k-tiles
    int cut = 0;

    __device__ __forceinline__ Work(int id, LaunchRaster order) {
      constexpr int of_matrix = C::tiles_m * C::tiles_n;
      batch = id / (of_matrix * C::split_k);
      const int rest = id % (of_matrix * C::split_k);
      split = rest / of_matrix;
      const TileIndex tile = raster<C::hilbert, C::tiles_m, C::tiles_n>(order, rest % of_matrix);
      m0 = tile.m * C::tile_m + rank() * rows;
      n0 = tile.n * C::tile_n;
      if constexpr (C::split_k == 1) {
        first = 0;
        tiles = C::tiles_k;
      } else {
        first = split * C::tiles_of_split;
        tiles = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
      }
      output_tile = ((batch * C::tiles_m + tile.m) * C::tiles_n + tile.n) * pair + rank();
    }
  };

  // Roles of threads that iterate over a block's tiles: one thread copies and requests tiles, one multiplies, and the
  // epilogue warps finish tiles.
  enum class Role { copies, multiplies, finishes };

  // Calls body(work) for every tile or part of a tile that this block computes.
  template <Role CallerRole, class Body>
  __device__ static __forceinline__ void for_each_work(unsigned shared, LaunchRaster order, const Body& body) {
    const int id = int(blockIdx.x) / pair;
    if constexpr (!C::several_tiles) {
      body(Work(id, order));
    } else if constexpr (C::stream_k) {
      // The work is divided among stream_k_blocks workers, independently of how many blocks run concurrently. This is
      // always correct, because a block only waits for the sums of a block that has already taken its ticket, and
      // therefore runs or has run.
      auto walk = Deal::Walk::of(id);
#pragma unroll 1
      while (walk.left > 0) {
        const typename Deal::Part part = walk.next();
        Work work(part.tile, order);
        work.first = part.first;
        work.tiles = part.count;
        work.cut = part.cut(id);
        body(work);
      }
    } else if constexpr (asks) {
      Answers answer{{shared}};
      int next = id;
#pragma unroll 1
      for (; next >= 0; answer.advance()) {
        if constexpr (CallerRole == Role::copies) ask(answer);
        body(Work(next, order));
        next = take<CallerRole>(answer);
      }
    } else {
      // may be fewer than stream_k_blocks, if fewer can run at the same time
      const int launched = int(gridDim.x) / pair;
#pragma unroll 1
      for (int next = id; next < works; next += launched) body(Work(next, order));
    }
  }

  // Pipeline state of a ring of Count stages. All users advance in the same order.
  template <int Count, int At>
  struct Ring {
    unsigned shared;
    int index = 0;        // index of the current stage
    unsigned parity = 0;  // parity of the number of completed rounds

    __device__ __forceinline__ unsigned full() const { return shared + unsigned(At + 16 * index); }
    __device__ __forceinline__ unsigned empty() const { return full() + 8; }
    __device__ __forceinline__ void advance() {
      if (++index == Count) {
        index = 0;
        parity ^= 1u;
      }
    }
  };
  struct Stages : Ring<C::stages, barriers_at> {
    __device__ __forceinline__ unsigned tile() const { return this->shared + unsigned(this->index * C::stage_bytes); }
  };
  using Sums = Ring<C::sum_buffers, sums_barriers_at>;
  // Ring of responses of cluster launch control. A slot of the ring is full when its response has arrived, and empty
  // when all threads that iterate over the pair's tiles have read the response.
  struct Answers : Ring<answers, answer_barriers_at> {
    __device__ __forceinline__ unsigned bytes() const { return this->shared + unsigned(answers_at + 16 * this->index); }
  };
  static constexpr int readers = pair * (1 + finishing_warps) + 1;

  // Requests the next tile, one tile ahead. The first block of a pair requests it for both blocks, and each block waits
  // for the response.
  __device__ static __forceinline__ void ask(const Answers& answer) {
    if (rank() == 0) wait(answer.empty(), answer.parity ^ 1u);
    ptx::mbarrier_arrive_expect_tx(answer.full(), 16);
    if (rank() == 0) ptx::try_cancel<pair>(answer.bytes(), answer.full());
  }

  // Waits for a response, and returns its tile, or -1 if no tile is left.
  template <Role CallerRole>
  __device__ static __forceinline__ int take(const Answers& answer) {
    wait(answer.full(), answer.parity);
    const int block = ptx::canceled_block(answer.bytes());
    ptx::fence_async_proxy();  // orders this read before the next response is written
    if constexpr (CallerRole == Role::finishes) ptx::warp_sync();
    if (CallerRole != Role::finishes || threadIdx.x % 32 == 0) arrive_in_first(answer.empty());
    return block < 0 ? -1 : block / pair;
  }

  // Arrives at a barrier of the first block of the pair.
  __device__ static __forceinline__ void arrive_in_first(unsigned barrier) {
    if constexpr (pair == 2) {
      ptx::mbarrier_arrive_in_cluster(in_first(barrier));
    } else {
      ptx::mbarrier_arrive(barrier);
    }
  }

  __device__ static __forceinline__ void wait(unsigned barrier, unsigned parity) {
    while (!ptx::mbarrier_try_wait(barrier, parity)) {
    }
  }

  // Initialises the barriers, by one thread. A stage is full when the bytes that the pair's first block expects have
  // arrived. A stage is empty after a commit of the multiplying thread. A buffer of sums is full after a commit, and
  // empty when the epilogue warps of both blocks have read it.
  __device__ static __forceinline__ void make_barriers(unsigned shared) {
    Stages stage{{shared}};
#pragma unroll 1
    for (; stage.parity == 0; stage.advance()) {
      ptx::mbarrier_init(stage.full(), 1);
      ptx::mbarrier_init(stage.empty(), 1);
    }
    Sums sums{shared};
#pragma unroll 1
    for (; sums.parity == 0; sums.advance()) {
      ptx::mbarrier_init(sums.full(), 1);
      ptx::mbarrier_init(sums.empty(), finishing_warps * pair);
    }
    if constexpr (asks) {
      Answers answer{{shared}};
#pragma unroll 1
      for (; answer.parity == 0; answer.advance()) {
        ptx::mbarrier_init(answer.full(), 1);
        ptx::mbarrier_init(answer.empty(), readers);
      }
    }
    ptx::fence_mbarrier_init();
  }
};

}  // namespace autosched
