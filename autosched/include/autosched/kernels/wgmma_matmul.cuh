// C = epilogue(A * B) on Hopper: one warp, alone or of a warpgroup that gives its registers away, has TMA copy tiles of
// A and B into a ring of stages, and `consumers` warpgroups multiply them by wgmma. Two mbarriers for each stage say that
// it is full, and that every consumer is done with it.
//
// Config: the parameters and attributes of search_spaces/templates/wgmma_matmul/space.py, and the problem: m, n, k,
// batch, order_a, order_b, has_bias, activation, and the types T (of A and B) and Out.
#pragma once
#include <autosched/common/choice.cuh>
#include <autosched/common/finish.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/raster.cuh>
#include <autosched/intrinsics/wgmma.cuh>
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

  static constexpr int consumer_threads = 128 * C::consumers;
  static constexpr bool gives_registers = C::producer_registers > 0;
  static constexpr int fragments = C::tile_m / 64 / C::consumers;  // of 64 rows, of one consumer
  static constexpr int steps_of_tile = C::tile_k * int(sizeof(T)) / A::k_bytes;
  static constexpr int barriers_at = C::stages * C::stage_bytes;
  static constexpr int flag_at = barriers_at + 16 * C::stages;

  static_assert(C::tile_m % (64 * C::consumers) == 0, "rule consumers: each consumer has whole multiples of 64 rows");
  static_assert(C::threads == consumer_threads + (gives_registers ? 128 : 32),
                "rule threads: the consumers, and a warp that copies, of a whole warpgroup where it gives registers");
  static_assert(!gives_registers || (C::producer_registers + C::consumers * C::consumer_registers) * 128 *
                                            C::min_blocks <= 65536,
                "rule consumer_registers: the warpgroups of the blocks of an SM share its registers");
  static_assert(C::accumulators == fragments * C::tile_n / 2, "rule accumulators: those of one consumer's rows");
  static_assert(C::stage_bytes == A::bytes + B::bytes && flag_at + 4 <= C::shared_bytes,
                "rule shared_memory: the stages and their barriers must fit into the block's shared memory");
  static_assert(A::bytes % 1024 == 0 && C::stage_bytes % 1024 == 0, "rule alignment: a swizzle repeats after 1024");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a k-tile, and together they have all of them");

  using Accumulators = float[fragments][C::tile_n / 2];

  // One tile of C, or one split of its k.
  struct Work {
    int batch, split, m0, n0, first, tiles;  // k-tiles: the first, and how many
    int output_tile;

    __device__ __forceinline__ explicit Work(int id) {
      constexpr int of_matrix = C::tiles_m * C::tiles_n;
      batch = id / (of_matrix * C::split_k);
      const int rest = id % (of_matrix * C::split_k);
      split = rest / of_matrix;
      const TileIndex tile =
          raster<raster_order(C::raster), raster_group(C::raster), C::tiles_m, C::tiles_n>(rest % of_matrix);
      m0 = tile.m * C::tile_m;
      n0 = tile.n * C::tile_n;
      first = split * C::tiles_of_split;
      tiles = C::tiles_k - first < C::tiles_of_split ? C::tiles_k - first : C::tiles_of_split;
      output_tile = (batch * C::tiles_m + tile.m) * C::tiles_n + tile.n;
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
    __device__ __forceinline__ void advance() {
      if (++stage == C::stages) {
        stage = 0;
        parity ^= 1u;
      }
    }
  };

  __device__ static __forceinline__ void wait(unsigned barrier, unsigned parity) {
    while (!ptx::mbarrier_try_wait(barrier, parity)) {
    }
  }

  template <class Body>
  __device__ static __forceinline__ void for_each_work(const Body& body) {
    body(Work(int(blockIdx.x)));
  }

  // One thread: fills every stage as soon as it is empty.
  __device__ static __forceinline__ void produce(const ptx::TensorMap& a, const ptx::TensorMap& b, Place place) {
    for_each_work([&](const Work& work) {
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, place.advance()) {
        wait(place.empty(), place.parity ^ 1u);  // the first round finds all stages empty
        ptx::mbarrier_arrive_expect_tx(place.full(), C::stage_bytes);
        const int k0 = (work.first + t) * C::tile_k;
        load<A>(a, place.tile(), work.m0, k0, work.batch, place.full());
        load<B>(b, place.tile() + A::bytes, work.n0, k0, work.batch, place.full());
      }
    });
  }

  template <class Operand>
  __device__ static __forceinline__ void load(const ptx::TensorMap& map, unsigned to, int mn0, int k0, int batch,
                                              unsigned barrier) {
#pragma unroll
    for (int box = 0; box < Operand::boxes; ++box) {
      const int along = box * Operand::width;
      const int x = Operand::major ? mn0 + along : k0 + along, y = Operand::major ? k0 : mn0;
      ptx::load_box(to + unsigned(box * Operand::box_bytes), map, x, y, batch, barrier);
    }
  }

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, unsigned tile, int group, bool first) {
    const unsigned long long a = A::descriptor(tile + unsigned(16 * A::advance(0, 64 * fragments) * group));
    const unsigned long long b = B::descriptor(tile + A::bytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps_of_tile; ++step) {
#pragma unroll
      for (int i = 0; i < fragments; ++i) {
        Multiply::template multiply<A::major, B::major>(acc[i], a + A::advance(step, 64 * i), b + B::advance(step, 0),
                                                        step > 0 || !first);
      }
    }
    ptx::wgmma_commit_group();
  }

  // A stage is read once each warp has waited for its multiplications.
  __device__ static __forceinline__ void release(unsigned empty) {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);
  }

  __device__ static __forceinline__ void main_loop(Accumulators& acc, Place& place, int tiles, int group) {
    unsigned unreleased = 0;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t, place.advance()) {
      wait(place.full(), place.parity);
      multiply_tile(acc, place.tile(), group, t == 0);
      ptx::wgmma_wait_group<C::in_flight>();
      if constexpr (C::in_flight == 0) {
        release(place.empty());
      } else {
        if (t > 0) release(unreleased);
        unreleased = place.empty();
      }
    }
    if constexpr (C::in_flight > 0) {
      ptx::wgmma_wait_group<0>();
      release(unreleased);
    }
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int r = 0; r < C::tile_n / 2; ++r) ptx::hold_register(acc[i][r]);
    }
  }

  // Adds the partial sums of all splits in the order of the splits, so that the result does not depend on which
  // block comes last. Returns whether this block is the last of its tile, which then finishes it.
  __device__ static __forceinline__ bool combine_splits(Accumulators& acc, unsigned flag, float* partials,
                                                        unsigned* counter, const Work& work) {
    constexpr int sums = C::accumulators * consumer_threads;  // of one split
    float* registers = &acc[0][0];
    float* mine = partials + static_cast<long long>(work.output_tile * C::split_k + work.split) * sums;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) {
      ptx::st_global(mine + r * consumer_threads + int(threadIdx.x), AlignedVector<4>{{ptx::bits_of(registers[r])}});
    }
    if (!is_last_block<C::split_k, consumer_threads>(counter, flag)) return false;
#pragma unroll
    for (int r = 0; r < C::accumulators; ++r) registers[r] = 0.0f;
    const float* from = partials + static_cast<long long>(work.output_tile) * C::split_k * sums + int(threadIdx.x);
#pragma unroll 1
    for (int s = 0; s < C::split_k; ++s) {
#pragma unroll
      for (int r = 0; r < C::accumulators; ++r) {
        registers[r] += ptx::float_of(ptx::ld_global_cg<4>(from + r * consumer_threads).word[0]);
      }
      from += sums;
    }
    return true;
  }

  __device__ static __forceinline__ void store(Accumulators& acc, const Out* bias, Out* out, const Work& work,
                                               int group) {
    const int warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32;
    constexpr int vector = C::n % 2 == 0 ? 2 : 1;
    constexpr bool partial_m = C::m % C::tile_m != 0, partial_n = C::n % C::tile_n != 0;
    const int row0 = work.m0 + group * fragments * 64 + warp * 16 + lane / 4, col0 = work.n0 + lane % 4 * 2;
    Out* first = out + (static_cast<long long>(work.batch) * C::m + row0) * C::n + col0;
    if constexpr (C::has_bias) bias += col0;
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = i * 64 + half * 8;
        if (partial_m && row0 + row >= C::m) continue;
        Out* out_row = first + static_cast<long long>(row) * C::n;
#pragma unroll
        for (int j = 0; j < C::tile_n / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; e += vector) {
            const int col = j * 8 + e;
            if (!partial_n || col0 + col < C::n) finish<C, vector>(&acc[i][j * 4 + half * 2 + e], bias, out_row, col);
          }
        }
      }
    }
  }

  __device__ static __forceinline__ void consume(const Out* bias, Out* out, float* partials, unsigned* counters,
                                                 Place place) {
    const int group = int(threadIdx.x) / 128;
    for_each_work([&](const Work& work) {
      Accumulators acc;
      main_loop(acc, place, work.tiles, group);
      if constexpr (C::split_k > 1) {
        if (!combine_splits(acc, place.shared + flag_at, partials, counters + work.output_tile, work)) return;
      }
      store(acc, bias, out, work, group);
    });
  }

  __device__ static __forceinline__ void run(const ptx::TensorMap& a, const ptx::TensorMap& b, const Out* bias,
                                             Out* out, float* partials, unsigned* counters) {
    const Place first{ptx::shared_memory()};
    if (threadIdx.x == 0) {
      Place place = first;
#pragma unroll 1
      for (; place.parity == 0; place.advance()) {
        ptx::mbarrier_init(place.full(), 1);
        ptx::mbarrier_init(place.empty(), 4 * C::consumers);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (threadIdx.x >= consumer_threads) {
      if constexpr (gives_registers) ptx::give_registers<C::producer_registers>();
      if (threadIdx.x == consumer_threads) produce(a, b, first);
    } else {
      if constexpr (gives_registers) ptx::take_registers<C::consumer_registers>();
      consume(bias, out, partials, counters, first);
    }
  }
};

template <class Config>
__device__ __forceinline__ void wgmma_matmul(const ptx::TensorMap& a, const ptx::TensorMap& b,
                                             const typename Config::Out* bias, typename Config::Out* out,
                                             float* partials, unsigned* counters) {
  WgmmaMatmul<Config>::run(a, b, bias, out, partials, counters);
}

}  // namespace autosched
