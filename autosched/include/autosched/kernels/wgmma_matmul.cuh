// C = epilogue(A * B) on Hopper: one warp, alone or of a warpgroup that gives its registers away, has TMA copy tiles of
// A and B into a ring of stages, and `consumers` warpgroups multiply them by wgmma. Two mbarriers for each stage say that
// it is full, and that every consumer is done with it. In the order of this file: the ring and the work of a block, the
// copies, the multiplications, the sums of blocks that share a tile, the stores.
//
// A block may compute several tiles of C one after another, while the copies go on: its consumers share the rows of each,
// or take turns (ping_pong). With stream_k the k-tiles of the last tiles are dealt out evenly to all blocks, which begin
// with them. The blocks of a cluster compute neighbouring tiles; each copies a share of what they have in common, for all
// that need it. `transposed`: A, B and C are the transposes of the problem's b, a and out, so C lies in memory by columns,
// and the bias belongs to its rows.
//
// An operand that TMA does not copy (it cannot where lines are not a multiple of 16 bytes apart) is moved by all threads
// that copy (access_a, access_b: the bytes that its lines are aligned to, 0 for TMA), and each arrives at the mbarrier of
// a stage that is full, behind the proxy fence without which wgmma would not see what they have written.
//
// Config: the parameters and attributes of search_spaces/templates/wgmma_matmul/space.py, and the problem: m, n, k,
// batch, order_a, order_b, scale, has_bias, activation, transposed, access_a, access_b, and the types T (of A and B) and Out.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/common/stream_k.cuh>
#include <autosched/intrinsics/wgmma.cuh>
#include <autosched/intrinsics/wgmma_copy.cuh>
#include <autosched/intrinsics/wgmma_fragment.cuh>
#include <autosched/intrinsics/wgmma_out.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/set_registers.cuh>
#include <autosched/ptx/tensor_map.cuh>

namespace autosched {

template <class Config>
struct WgmmaMatmul {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;
  using A = WgmmaOperand<T, C::tile_m, C::tile_k, C::order_a == "row", C::swizzle_a>;
  using B = WgmmaOperand<T, C::tile_n, C::tile_k, C::order_b == "col", C::swizzle_b>;
  using Multiply = ptx::Wgmma<T, C::tile_n>;
  static constexpr bool a_in_registers = C::a_from == "registers";
  using Sum = typename Element<T>::Sum;
  using End = Ends<C, C::transposed ? C::n : C::m, C::transposed ? C::m : C::n>;

  using Box = WgmmaOutBox<Out, C::store_line>;

  static constexpr int consumer_threads = 128 * C::consumers;
  static constexpr int sharing = C::ping_pong ? 1 : C::consumers;  // the rows of a tile
  static constexpr bool gives_registers = C::producer_registers > 0;
  static constexpr int fragments = C::tile_m / 64 / sharing;  // of 64 rows, of one consumer
  static constexpr int boxes_n = C::tile_n / Box::width;      // of out, of a fragment
  static constexpr int steps_of_tile = C::tile_k * int(sizeof(T)) / A::k_bytes;
  static constexpr int cluster = C::cluster_m * C::cluster_n;
  static constexpr int peers = C::cluster_m + C::cluster_n - 1;  // blocks that read what one copies, itself among them
  static constexpr int works = C::blocks / cluster;  // of a cluster: tiles of C, and of each the splits of k
  static constexpr int workers = C::launched_blocks / cluster;
  using Deal = StreamK<works, workers, C::tiles_k>;
  static constexpr int boxes_at = C::stages * C::stage_bytes;
  static constexpr int barriers_at = boxes_at + C::consumers * C::store_buffers * Box::bytes;
  static constexpr int flag_at = barriers_at + 16 * C::stages;
  static constexpr int ends_at = flag_at + 16;  // of lines that are shifted into place: those of a, then b, of each stage
  static constexpr int lines_a = A::lines / C::cluster_n, lines_b = B::lines / C::cluster_m;  // that one block copies
  // The ranks of the blocks along n, as bits: 1, and every cluster_m-th behind it.
  static constexpr unsigned blocks_along_n = ((1u << cluster) - 1) / ((1u << C::cluster_m) - 1);
  static constexpr bool threads_copy = C::access_a > 0 || C::access_b > 0;
  static constexpr int copying_threads = gives_registers ? 128 : 32;
  static constexpr int tma_bytes = (C::access_a ? 0 : A::bytes) + (C::access_b ? 0 : B::bytes);  // of a stage
  static constexpr int full_arrivals = threads_copy ? copying_threads + (tma_bytes > 0) : 1;
  using CopyA = WgmmaCopy<T, A, A::major ? C::m : C::k, A::major ? C::k : C::m, C::access_a, copying_threads>;
  using CopyB = WgmmaCopy<T, B, B::major ? C::n : C::k, B::major ? C::k : C::n, C::access_b, copying_threads>;
  enum NamedBarrier { of_last_block = 1, of_turns = 2, of_boxes = 4 };  // the first of one for each consumer

  static_assert(C::tile_m % (64 * sharing) == 0, "rule consumers: each consumer has whole multiples of 64 rows");
  static_assert(C::threads == consumer_threads + copying_threads,
                "rule threads: the consumers, and a warp that copies, of a whole warpgroup where it gives registers");
  static_assert(!gives_registers || (C::producer_registers + C::consumers * C::consumer_registers) * 128 *
                                            C::min_blocks <= 65536,
                "rule consumer_registers: the warpgroups of the blocks of an SM share its registers");
  static_assert(C::accumulators == fragments * C::tile_n / 2, "rule accumulators: those of one consumer's rows");
  static_assert(C::stage_bytes == A::bytes + B::bytes && flag_at + 16 + C::ends_bytes * C::stages <= C::shared_bytes,
                "rule shared_memory: the stages, boxes of out and barriers must fit into the block's shared memory");
  static_assert(A::bytes % 1024 == 0 && C::stage_bytes % 1024 == 0, "rule alignment: a swizzle repeats after 1024");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and together they have all of them");
  static_assert(C::tiles_of_block == 1 || C::split_k == 1, "rule tiles_of_block: splits are of one tile a block");
  static_assert(!C::stream_k || (C::tiles_of_block > 1 && works > workers && works % workers != 0),
                "rule stream_k: several tiles of a block, and a partial wave behind whole ones");
  static_assert(!C::stream_k || C::tiles_k > 1, "rule stream_k_tiles: k-tiles are dealt out");
  static_assert(!C::ping_pong || (C::consumers == 2 && C::tiles_of_block > 1),
                "rule ping_pong: two consumers take turns at the tiles of a block");
  static_assert(C::tiles_m % C::cluster_m == 0 && C::tiles_n % C::cluster_n == 0,
                "rule cluster: whole clusters make up the tiles of out");
  static_assert(lines_a % 8 == 0 && lines_a * C::cluster_n == A::lines && lines_b % 8 == 0 &&
                    lines_b * C::cluster_m == B::lines,
                "rule multicast: each block of a cluster copies whole groups of 8 lines");
  static_assert((C::access_a == 0 || C::cluster_n == 1) && (C::access_b == 0 || C::cluster_m == 1),
                "rule copied: what threads copy is for their own block");
  static_assert(!threads_copy || !gives_registers || C::producer_registers >= (C::ends_bytes ? 64 : 48),
                "rule copying_registers: what threads that copy need");
  static_assert(!a_in_registers || C::in_flight == 0,
                "rule a_from: registers of A are loaded anew when the multiplications that read them have been waited for");
  static_assert(C::store_buffers == 0 || !C::transposed, "rule store_buffers: TMA stores rows of C");
  static_assert(C::store_buffers == 0 || fragments * boxes_n % C::store_buffers == 0,
                "rule store_buffers: each tile begins with the first box in shared memory");

  using Accumulators = Sum[fragments][C::tile_n / 2];

  // Which block of its cluster this is: ranks go along m first.
  __device__ static __forceinline__ int rank() { return int(blockIdx.x) % cluster; }
  __device__ static __forceinline__ int rank_m() { return rank() % C::cluster_m; }
  __device__ static __forceinline__ int rank_n() { return rank() / C::cluster_m; }

  // One tile of C, or a part of its k.
  struct Work {
    int batch, split, m0, n0, first, tiles;  // k-tiles: the first, and how many
    int output_tile;
    int cut = 0;  // with stream_k, of a tile that two share: the worker that the k before the cut is dealt to

    // `id` counts what a cluster computes together.
    __device__ __forceinline__ explicit Work(int id) {
      constexpr int across_m = C::tiles_m / C::cluster_m, across_n = C::tiles_n / C::cluster_n;
      constexpr int of_matrix = across_m * across_n;
      batch = id / (of_matrix * C::split_k);
      const int rest = id % (of_matrix * C::split_k);
      split = rest / of_matrix;
      const TileIndex tile =
          raster<raster_order(C::raster), raster_group(C::raster), across_m, across_n>(rest % of_matrix);
      const int tile_m = tile.m * C::cluster_m + rank_m(), tile_n = tile.n * C::cluster_n + rank_n();
      m0 = tile_m * C::tile_m;
      n0 = tile_n * C::tile_n;
      first = split * C::tiles_of_split;
      tiles = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
      output_tile = (batch * C::tiles_m + tile_m) * C::tiles_n + tile_n;
    }
  };

  // A place in the ring of stages: both sides walk it in the same order.
  struct Place {
    unsigned shared;
    int stage = 0;
    unsigned parity = 0;  // of the rounds done

    __device__ __forceinline__ unsigned tile() const { return shared + unsigned(stage * C::stage_bytes); }
    __device__ __forceinline__ unsigned full() const { return shared + unsigned(barriers_at + 16 * stage); }
    __device__ __forceinline__ unsigned empty() const { return full() + 8; }
    __device__ __forceinline__ unsigned ends() const { return shared + unsigned(ends_at + C::ends_bytes * stage); }
    __device__ __forceinline__ void advance() {
      if (++stage == C::stages) {
        stage = 0;
        parity ^= 1u;
      }
    }
    __device__ __forceinline__ void skip(int tiles) {
      stage += tiles;
      parity ^= unsigned(stage / C::stages) & 1u;
      stage %= C::stages;
    }
  };

  __device__ static __forceinline__ void wait(unsigned barrier, unsigned parity) {
    while (!ptx::mbarrier_try_wait<(cluster > 1)>(barrier, parity)) {
    }
  }

  // Everything that this block computes: body(work, how many came before, whether another follows).
  template <class Body>
  __device__ static __forceinline__ void for_each_work(const Body& body) {
    const int id = int(blockIdx.x) / cluster;
    if constexpr (C::tiles_of_block == 1) {
      body(Work(id), 0, false);
    } else if constexpr (C::stream_k) {
      auto walk = Deal::Walk::of(id);
#pragma unroll 1
      for (int turn = 0; walk.left > 0; ++turn) {
        const typename Deal::Part part = walk.next();
        Work work(part.tile);
        work.first = part.first;
        work.tiles = part.count;
        work.cut = part.cut(id);
        body(work, turn, walk.left > 0);
      }
    } else {
#pragma unroll 1
      for (int next = id, turn = 0; next < works; next += workers, ++turn) {
        body(Work(next), turn, next + workers < works);
      }
    }
  }

  // One thread: fills every stage as soon as it is empty.
  __device__ static __forceinline__ void produce(const ptx::TensorMap& a, const ptx::TensorMap& b, Place place) {
    for_each_work([&](const Work& work, int, bool) {
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, place.advance()) {
        wait(place.empty(), place.parity ^ 1u);  // the first round finds all stages empty
        load_stage(a, b, place, work, (work.first + t) * C::tile_k);
      }
    });
  }

  // All threads that copy: one of them asks TMA for its operand, if any, and each begins to copy a part of the others. A
  // stage is told to be full some k-tiles later, which are on their way meanwhile: as many as stages are left besides
  // those that consumers may hold.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void produce_together(const FromA& a, const FromB& b, Place place) {
    constexpr int behind = C::stages - 1 - C::in_flight;
    static_assert(behind >= 0, "rule stages: one that is filled besides those that may be multiplied");
    constexpr bool shifts_differ = differ<CopyA, (C::access_a > 0)>() || differ<CopyB, (C::access_b > 0)>();
    const int thread = int(threadIdx.x) - consumer_threads;
    Place arrived = place;
    int on_their_way = 0;
    const auto publish_rest = [&](int matrix) {
      ptx::cp_async_wait_group<0>();
#pragma unroll 1
      for (; on_their_way > 0; --on_their_way) publish(arrived, matrix, thread);
    };
    for_each_work([&](const Work& work, int, bool) {
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, place.advance()) {
        wait(place.empty(), place.parity ^ 1u);
        const int k0 = (work.first + t) * C::tile_k;
        if constexpr (tma_bytes > 0) {
          if (thread == 0) load_stage(a, b, place, work, k0);
        }
        if constexpr (C::access_a > 0) {
          CopyA(thread).begin(a, work.batch, place.tile(), place.ends(), A::major ? work.m0 : k0,
                              A::major ? k0 : work.m0);
        }
        if constexpr (C::access_b > 0) {
          CopyB(thread).begin(b, work.batch, place.tile() + A::bytes, ends_of_b(place), B::major ? work.n0 : k0,
                              B::major ? k0 : work.n0);
        }
        ptx::cp_async_commit_group();
        if (on_their_way < behind) {
          ++on_their_way;
        } else {
          ptx::cp_async_wait_group<behind>();
          publish(arrived, work.batch, thread);
        }
      }
      if constexpr (shifts_differ) publish_rest(work.batch);  // while it is known which matrix they are of
    });
    if constexpr (!shifts_differ) publish_rest(0);
  }

  template <class Copy, bool Copied>
  __host__ __device__ static constexpr bool differ() {
    if constexpr (Copied) return C::batch > 1 && Copy::shifts_differ;
    return false;
  }
  __device__ static __forceinline__ unsigned ends_of_b(const Place& place) {
    if constexpr (C::access_a > 0) return place.ends() + CopyA::ends_bytes;
    return place.ends();
  }

  // What this thread has copied to a stage, and waited for, is wgmma's to read.
  __device__ static __forceinline__ void publish(Place& arrived, int matrix, int thread) {
    if constexpr (0 < C::access_a && C::access_a < 4) {
      CopyA(thread).finish(matrix, arrived.tile(), arrived.ends());
    }
    if constexpr (0 < C::access_b && C::access_b < 4) {
      CopyB(thread).finish(matrix, arrived.tile() + A::bytes, ends_of_b(arrived));
    }
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(arrived.full());
    arrived.advance();
  }

  // One thread: has TMA copy its operands of a stage.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void load_stage(const FromA& a, const FromB& b, const Place& place, const Work& work,
                                                    int k0) {
    constexpr ptx::Evict evict_a = evict(C::kept == "a", C::kept == "b"), evict_b = evict(C::kept == "b", C::kept == "a");
    const auto to_a = static_cast<unsigned short>(blocks_along_n << rank_m());
    const auto to_b = static_cast<unsigned short>(((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m));
    ptx::mbarrier_arrive_expect_tx(place.full(), tma_bytes);
    if constexpr (C::access_a == 0) {
      load<A, lines_a, (C::cluster_n > 1)>(a, place.tile(), work.m0, k0, work.batch, place.full(), evict_a, rank_n(),
                                           to_a);
    }
    if constexpr (C::access_b == 0) {
      load<B, lines_b, (C::cluster_m > 1)>(b, place.tile() + A::bytes, work.n0, k0, work.batch, place.full(), evict_b,
                                           rank_m(), to_b);
    }
  }

  __device__ static constexpr ptx::Evict evict(bool keep, bool other) {
    return keep ? ptx::Evict::last : other ? ptx::Evict::first : ptx::Evict::normally;
  }

  // The share `part` of the tile's boxes, Lines lines of each.
  template <class Operand, int Lines, bool Multicast>
  __device__ static __forceinline__ void load(const ptx::TensorMap& map, unsigned to, int mn0, int k0, int batch,
                                              unsigned barrier, ptx::Evict evict, int part, unsigned short blocks) {
    const int line0 = Multicast ? part * Lines : 0;
    to += unsigned(line0 * Operand::line);
#pragma unroll
    for (int box = 0; box < Operand::boxes; ++box) {
      const int along = box * Operand::width;
      const int x = Operand::major ? mn0 + along : k0 + along, y = (Operand::major ? k0 : mn0) + line0;
      if constexpr (Multicast) {
        ptx::load_box_for(blocks, to + unsigned(box * Operand::box_bytes), map, x, y, batch, barrier, evict);
      } else {
        ptx::load_box(to + unsigned(box * Operand::box_bytes), map, x, y, batch, barrier, evict);
      }
    }
  }

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, unsigned tile, int group, bool first) {
    const unsigned long long b = B::descriptor(tile + A::bytes);
    if constexpr (a_in_registers) {
      multiply_registers(acc, tile, b, group, first);
    } else {
      multiply_shared(acc, A::descriptor(tile + unsigned(16 * A::advance(0, 64 * fragments) * group)), b, first);
    }
    ptx::wgmma_commit_group();
  }

  __device__ static __forceinline__ void multiply_shared(Accumulators& acc, unsigned long long a, unsigned long long b,
                                                         bool first) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of_tile; ++step) {
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
        Multiply::template multiply<A::major, B::major>(acc[i], a + A::advance(step, 64 * i), b + B::advance(step, 0),
                                                        step > 0 || !first);
      }
    }
  }

  // With A from registers: those of a step are loaded while the steps before it are multiplied.
  __device__ static __forceinline__ void multiply_registers(Accumulators& acc, unsigned tile, unsigned long long b,
                                                            int group, bool first) {
    const int row = group * fragments * 64 + int(threadIdx.x) / 32 % 4 * 16;
#pragma unroll
    for (int step = 0; step < steps_of_tile; ++step) {
      unsigned a[fragments][4];
#pragma unroll
      for (int i = 0; i < fragments; ++i) load_fragment<T, A>(a[i], tile, row + 64 * i, step);
      ptx::wgmma_fence();  // of A's registers, too
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
        ptx::WgmmaOfRegisters<T, C::tile_n>::template multiply<B::major>(acc[i], a[i], b + B::advance(step, 0),
                                                                         step > 0 || !first);
      }
    }
  }

  // The rank of the block that lane `i` of a warp tells that a stage is read: those along n, then the others along m.
  __device__ static __forceinline__ int peer(int i) {
    if (i < C::cluster_n) return rank_m() + i * C::cluster_m;
    const int other = i - C::cluster_n;
    return other + (other < rank_m() ? 0 : 1) + rank_n() * C::cluster_m;
  }

  // A stage is read once each warp has waited for its multiplications. In a cluster all blocks whose copies it was
  // filled by must know; `elsewhere` is this lane's one of them, less the address of this block's own shared memory.
  // Loads of A by all lanes come before the arrival of one, too.
  __device__ static __forceinline__ void release(unsigned empty, unsigned elsewhere) {
    if constexpr (a_in_registers) ptx::warp_sync();
    if constexpr (cluster == 1) {
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (threadIdx.x % 32 < peers) ptx::mbarrier_arrive_in_cluster(empty + elsewhere);
    }
  }

  __device__ static __forceinline__ void main_loop(Accumulators& acc, Place& place, int tiles, int group,
                                                   unsigned elsewhere, bool more) {
    unsigned unreleased = 0;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t, place.advance()) {
      wait(place.full(), place.parity);
      multiply_tile(acc, place.tile(), group, t == 0);
      ptx::wgmma_wait_group<C::in_flight>();
      if constexpr (C::in_flight == 0) {
        release(place.empty(), elsewhere);
      } else {
        if (t > 0) release(unreleased, elsewhere);
        unreleased = place.empty();
      }
    }
    if constexpr (C::ping_pong) {
      if (more) ptx::barrier_arrive(of_turns + (1 - int(threadIdx.x) / 128), consumer_threads);
    }
    if constexpr (C::in_flight > 0) {
      ptx::wgmma_wait_group<0>();
      release(unreleased, elsewhere);
    }
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r < C::tile_n / 2; ++r) ptx::hold_register(acc[i][r]);
    }
  }

  // As main_loop, but each k-tile has sums of its own, which are scaled before they are added up: tensor cores keep few
  // bits of sums of 8-bit floats (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). `sums` are those of all k-tiles.
  __device__ static __forceinline__ void scaled_loop(Accumulators& sums, Place& place, const Work& work, int group,
                                                     unsigned elsewhere, bool more, const End& ends) {
    constexpr int block = 128, blocks_k = ceil_div(C::k, block), blocks_n = ceil_div(C::n, block);
    constexpr int across = ceil_div(C::tile_n, block);
    static_assert(C::tile_k == block && C::in_flight == 0 && (C::tile_n % block == 0 || block % C::tile_n == 0),
                  "scales of blocks are those of a k-tile, and of whole groups of columns");
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32;
    const int row0 = work.m0 + group * fragments * 64 + warp * 16 + lane / 4;
    const float* of_a = ends.scale_a + static_cast<long long>(work.batch) * C::m * blocks_k + work.first;
    const float* of_b = ends.scale_b + static_cast<long long>(work.batch) * blocks_n * blocks_k + work.first;
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r < C::tile_n / 2; ++r) sums[i][r] = 0;
    }
#pragma unroll 1
    for (int t = 0; t < work.tiles; ++t, place.advance()) {
      float a[fragments][2], b[across];  // what is outside of C is not stored: the scale of the last one inside will do
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = row0 + i * 64 + half * 8;
          a[i][half] = End::number(of_a + static_cast<long long>(row < C::m ? row : C::m - 1) * blocks_k + t);
        }
      }
#pragma unroll
      for (int q = 0; q < across; ++q) {
        const int column = work.n0 / block + q;
        b[q] = End::number(of_b + (column < blocks_n ? column : blocks_n - 1) * blocks_k + t);
      }
      wait(place.full(), place.parity);
      Accumulators acc;
      multiply_tile(acc, place.tile(), group, true);
      ptx::wgmma_wait_group<0>();
      release(place.empty(), elsewhere);
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
#pragma unroll
        for (int r = 0; r < C::tile_n / 2; ++r) {
          ptx::hold_register(acc[i][r]);
          sums[i][r] += a[i][r / 2 % 2] * b[r / 4 * 8 / block] * acc[i][r];
        }
      }
    }
    if constexpr (C::ping_pong) {
      if (more) ptx::barrier_arrive(of_turns + (1 - int(threadIdx.x) / 128), consumer_threads);
    }
  }

  // Adds the partial sums of all splits in the order of the splits, so that the result does not depend on which
  // block comes last. Returns whether this block is the last of its tile, which then finishes it.
  __device__ static __forceinline__ bool combine_splits(Accumulators& acc, unsigned flag, float* partials,
                                                        unsigned* counter, const Work& work) {
    constexpr int sums = C::accumulators * consumer_threads;  // of one split
    Sum* registers = &acc[0][0];
    float* mine = partials + static_cast<long long>(work.output_tile * C::split_k + work.split) * sums;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) {
      ptx::st_global(mine + r * consumer_threads + int(threadIdx.x), AlignedVector<4>{{round_to<Sum>(registers[r])}});
    }
    if (!is_last_block<C::split_k, consumer_threads>(counter, flag)) return false;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) registers[r] = 0;
    const float* from = partials + static_cast<long long>(work.output_tile) * C::split_k * sums + int(threadIdx.x);
#pragma unroll 1
    for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
      for (int r = 0; r < C::accumulators; ++r) {
        registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from + r * consumer_threads).word[0]);
      }
      from += sums;
    }
    return true;
  }

  // Adds what two workers have multiplied of one tile, each warpgroup its rows. Returns whether this one finishes it.
  __device__ static __forceinline__ bool combine_two(Accumulators& acc, unsigned flags, float* partials,
                                                     unsigned* counters, const Work& work) {
    const int group = int(threadIdx.x) / 128;
    const int place = (work.cut * cluster + rank()) * sharing + (C::ping_pong ? 0 : group);
    return add_other_part<C::accumulators, 128>(
        &acc[0][0], partials + static_cast<long long>(place) * C::accumulators * 128, counters + 2 * place,
        flags + unsigned(4 * group), int(threadIdx.x) % 128, of_boxes + group);
  }

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
      for (int half = 0; half < 2; ++half) {  // of rows outside of C that of the last one inside, which is read anyway
        const int row = i * 64 + half * 8, last = C::m - 1 - row0;
        of_rows[i][half] = C::transposed ? 1.0f : ends.of_row(!partial_m || row < last ? row : last);
      }
    }
    // Columns first: what they are scaled by and what is added to them is then needed for all rows at once, and not
    // kept in registers from one row to the next. An activation of many instructions is in the code for a part of the
    // columns, and the sums of the others move to their registers: a half and more of the time to compile such a kernel,
    // and code that the instruction cache holds, for one move or two of a sum.
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
            const Sum* sums = &acc[i][r0 + half * 2];
            if constexpr (C::transposed) {
              finish<C, 1>(sums, ends, ends.of_row(col), first + static_cast<long long>(col) * C::m, row);
            } else {
              finish<C, vector>(sums, ends, of_rows[i][half], first + static_cast<long long>(row) * C::n, col);
            }
          }
        }
      }
      move_down<part / 2>(acc);
    }
  }

  // To the registers of the first columns, which have been stored, the sums of those behind them.
  template <int Stored>
  __device__ static __forceinline__ void move_down(Accumulators& acc) {
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r + Stored < C::tile_n / 2; ++r) acc[i][r] = acc[i][r + Stored];
    }
  }

  __host__ __device__ static constexpr int part_of_columns() {
    if (activation(C::activation) != Activation::gelu) return C::tile_n;
    return C::tile_n % 32 == 0 ? 32 : C::tile_n % 16 == 0 ? 16 : C::tile_n;
  }

  // Through shared memory, a box at a time: TMA stores it while the next ones are written.
  __device__ static __forceinline__ void store_boxes(Accumulators& acc, End ends, const ptx::TensorMap* out,
                                                     const Work& work, unsigned boxes, int group) {
    constexpr bool partial_n = C::n % C::tile_n != 0;
    const int col0 = work.n0 + int(threadIdx.x) % 4 * 2;
    const int row0 = work.m0 + (C::ping_pong ? 0 : group * fragments * 64), barrier = of_boxes + group;
    const int row_of_thread = int(threadIdx.x) / 32 % 4 * 16 + int(threadIdx.x) % 32 / 4;
    boxes += unsigned(group * C::store_buffers * Box::bytes);
    ends = ends.of_matrix(work.batch).at(0, col0);
    float of_rows[fragments][2];
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {  // of rows outside of C that of the last one inside, which is read anyway
        const int row = row0 + i * 64 + row_of_thread + half * 8;
        of_rows[i][half] = ends.of_row(row < C::m ? row : C::m - 1);
      }
    }
    constexpr int together = part_of_columns() < C::tile_n ? 1 : boxes_n;  // columns first and in parts, as in store
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
          x[r] = static_cast<Finished<C>>(acc[i][b * Box::registers + r]);
          x[r + 1] = static_cast<Finished<C>>(acc[i][b * Box::registers + r + 1]);
          if (!partial_n || col0 + col < C::n) finish_values<C, 2>(&x[r], ends, of_rows[i][r / 2 % 2], col);
        }
        if (threadIdx.x % 128 == 0) ptx::wait_stores_read<C::store_buffers - 1>();
        ptx::barrier_sync(barrier, 128);  // what the box held has been read
        Box::write(box, x);
        ptx::fence_async_proxy();
        ptx::barrier_sync(barrier, 128);  // every thread has written its part
        if (threadIdx.x % 128 == 0) {
          ptx::store_box(*out, work.n0 + column, row0 + i * 64, work.batch, box);
          ptx::commit_stores();
        }
      }
      move_down<together * Box::registers>(acc);
    }
  }

  __device__ static __forceinline__ void consume(const End& ends, Out* out, const ptx::TensorMap* out_map,
                                                 float* partials, unsigned* counters, Place place) {
    const int group = int(threadIdx.x) / 128;
    unsigned elsewhere = 0;
    if constexpr (cluster > 1) {
      const int i = int(threadIdx.x) % 32;
      elsewhere = ptx::address_in(place.shared, peer(i < peers ? i : 0)) - place.shared;
    }
    if constexpr (C::ping_pong) {
      if (group == 1) ptx::barrier_arrive(of_turns, consumer_threads);  // the first turn is that of the other one
    }
    for_each_work([&](const Work& work, int turn, bool more) {
      if constexpr (C::ping_pong) {
        if (turn % 2 != group) return place.skip(work.tiles);
        // Its stages were all full once the other one has multiplied them: no phase of theirs is mistaken for mine.
        ptx::barrier_sync(of_turns + group, consumer_threads);
      }
      Accumulators acc;
      if constexpr (C::scale == "block") {
        scaled_loop(acc, place, work, C::ping_pong ? 0 : group, elsewhere, more, ends);
      } else {
        main_loop(acc, place, work.tiles, C::ping_pong ? 0 : group, elsewhere, more);
      }
      if constexpr (C::split_k > 1) {
        if (!combine_splits(acc, place.shared + flag_at, partials, counters + work.output_tile, work)) return;
      }
      if constexpr (C::stream_k) {
        if (work.tiles < C::tiles_k && !combine_two(acc, place.shared + flag_at, partials, counters, work)) return;
      }
      if constexpr (C::store_buffers > 0) {
        store_boxes(acc, ends, out_map, work, place.shared + boxes_at, group);
      } else {
        store(acc, ends, out, work, C::ping_pong ? 0 : group);
      }
    });
    if constexpr (C::store_buffers > 0) {
      if (threadIdx.x % 128 == 0) ptx::wait_stores_read<0>();  // shared memory is the block's until it exits
    }
  }

  // Of the block, or all blocks of its cluster, whose barriers and shared memory its copies use.
  __device__ static __forceinline__ void sync() {
    if constexpr (cluster > 1) {
      ptx::cluster_sync();
    } else {
      ptx::barrier_sync();
    }
  }

  // `a` and `b`: a tensor map, or the first element of what threads copy.
  template <class FromA, class FromB>
  __device__ static __forceinline__ void run(const FromA& a, const FromB& b, const End& ends, Out* out,
                                             const ptx::TensorMap* out_map, float* partials, unsigned* counters) {
    const Place first{ptx::shared_memory()};
    if (threadIdx.x == 0) {
      if constexpr (C::access_a == 0) ptx::prefetch_map(a);
      if constexpr (C::access_b == 0) ptx::prefetch_map(b);
      Place place = first;
#pragma unroll 1
      for (; place.parity == 0; place.advance()) {
        ptx::mbarrier_init(place.full(), full_arrivals);
        ptx::mbarrier_init(place.empty(), 4 * sharing * peers);
      }
      ptx::fence_mbarrier_init();
    }
    sync();
    if (threadIdx.x >= consumer_threads) {
      if constexpr (gives_registers) ptx::give_registers<C::producer_registers>();
      if constexpr (threads_copy) {
        produce_together(a, b, first);
      } else {
        if (threadIdx.x == consumer_threads) produce(a, b, first);
      }
    } else {
      if constexpr (gives_registers) ptx::take_registers<C::consumer_registers>();
      consume(ends, out, out_map, partials, counters, first);
    }
    if constexpr (cluster > 1) ptx::cluster_sync();  // others arrive at its barriers until they have read all
  }
};

template <class Config, class FromA, class FromB>
__device__ __forceinline__ void wgmma_matmul(const FromA& a, const FromB& b,
                                             const float* scale_a, const float* scale_b,
                                             const typename Config::Out* bias, typename Config::Out* out,
                                             const ptx::TensorMap* out_map, float* partials, unsigned* counters) {
  WgmmaMatmul<Config>::run(a, b, {bias, scale_a, scale_b}, out, out_map, partials, counters);
}

}  // namespace autosched
