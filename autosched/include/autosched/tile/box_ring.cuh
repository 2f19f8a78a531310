// A ring of stages that hold boxes, for the staged loads of a loop. All threads or a dedicated producer warp fill it.
//
// A stage that TMA fills has a "full" mbarrier. With a producer warp, it also has an "empty" mbarrier. `begun` is the
// number of iterations that a persistent block has executed for its earlier tiles.
//
// C: stages, stage_bytes, consumer_warps, and in_flight (number of iterations whose multiplications may still be in
// flight after `body`).
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/tensor_map/tensor_map.cuh>
#include <autosched/ptx/warp/elect.cuh>
#include <autosched/ptx/warp/vote.cuh>
#include <autosched/ptx/wgmma/wgmma.cuh>

namespace autosched::tile {

// The copies for all loads of a loop. Their tiles are adjacent in a stage.
template <class... Operands>
struct BoxLoads;
template <>
struct BoxLoads<> {
  static constexpr int tma_bytes = 0;
  static constexpr bool any_async = false;
  __device__ __forceinline__ void begin(unsigned) const {}
  __device__ __forceinline__ void fetch(unsigned, unsigned) const {}
  __device__ __forceinline__ void advance() {}
};
template <class First, class... Rest>
struct BoxLoads<First, Rest...> {
  static constexpr int tma_bytes = First::tma_bytes + BoxLoads<Rest...>::tma_bytes;
  static constexpr bool any_async = !First::tma || BoxLoads<Rest...>::any_async;
  typename First::Copy copy;
  BoxLoads<Rest...> rest;
  __device__ __forceinline__ void begin(unsigned at) const {
    if constexpr (!First::tma) copy.begin(at);
    rest.begin(at + First::stage_bytes);
  }
  __device__ __forceinline__ void fetch(unsigned at, unsigned full) const {
    if constexpr (First::tma) copy.fetch(at, full);
    rest.fetch(at + First::stage_bytes, full);
  }
  __device__ __forceinline__ void advance() {
    First::advance(copy);
    rest.advance();
  }
};

// Pipeline state: a position in the ring. `barriers` is the address of the ring's first mbarrier.
template <class C>
struct PipelineState {
  unsigned tile, barriers;
  int index = 0;  // index of the current stage
  unsigned parity = 0;  // parity of the number of completed rounds
  __device__ __forceinline__ PipelineState(unsigned shared, unsigned barriers) : tile(shared), barriers(barriers) {}
  // The pipeline state after `begun` iterations.
  __device__ __forceinline__ PipelineState(unsigned shared, unsigned barriers, int begun)
      : tile(shared + unsigned(begun % C::stages * C::stage_bytes)),
        barriers(barriers),
        index(begun % C::stages),
        parity(unsigned(begun / C::stages) & 1u) {}
  __device__ __forceinline__ unsigned full() const { return barriers + unsigned(16 * index); }
  __device__ __forceinline__ unsigned empty() const { return full() + 8; }
  __device__ __forceinline__ void advance() {
    tile += unsigned(C::stage_bytes);
    if (++index == C::stages) {
      tile -= unsigned(C::stages * C::stage_bytes);
      index = 0;
      parity ^= 1u;
    }
  }
};

// Initialises the barriers. One thread calls this before other threads use them.
template <class C>
__device__ __forceinline__ void init_ring(unsigned barriers) {
#pragma unroll 1
  for (int stage = 0; stage < C::stages; ++stage) {
    ptx::mbarrier_init(barriers + unsigned(16 * stage), 1);
    ptx::mbarrier_init(barriers + unsigned(16 * stage + 8), C::consumer_warps);
  }
}

// All lanes of a warp wait together until each has observed the end of the phase. So ptxas does not assume divergence.
__device__ __forceinline__ void wait_phase(unsigned barrier, unsigned parity) {
  while (!ptx::vote_all(ptx::mbarrier_try_wait(barrier, parity))) {
  }
}

// All threads run `body(stage address, iteration)` for each of `steps` iterations, while the loads of later iterations
// are in flight.
template <class C, class Loads, class Body>
__device__ __forceinline__ void box_pipeline(Loads& loads, unsigned shared, unsigned barriers, int steps, int begun,
                                             int warp, const Body& body) {
  constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;
  PipelineState<C> stage(shared, barriers, begun), next(shared, barriers, begun);
  const auto fill = [&] {
    if constexpr (Loads::tma_bytes > 0) {
      if (warp == 0 && ptx::elect()) {
        ptx::mbarrier_arrive_expect_tx(next.full(), Loads::tma_bytes);
        loads.fetch(next.tile, next.full());
      }
    }
    if constexpr (Loads::any_async) loads.begin(next.tile);
    loads.advance();
    next.advance();
  };
  const auto commit = [] {
    if constexpr (Loads::any_async) ptx::cp_async_commit_group();
  };
#pragma unroll 1
  for (int s = 0; s < ahead; ++s) {
    if (s < steps) fill();
    commit();
  }
#pragma unroll 1
  for (int left = steps; left > 0; --left, stage.advance()) {
    if constexpr (Loads::any_async) {
      ptx::cp_async_wait_group<(C::stages >= 2 ? C::stages - 2 : 0)>();
      ptx::fence_async_proxy();  // makes this thread's copies visible to tensor cores
    }
    ptx::barrier_sync();  // all threads have completed their copies, and have read the stage of the previous step
    if constexpr (Loads::tma_bytes > 0) wait_phase(stage.full(), stage.parity);
    if constexpr (C::stages > 1) {
      if (left > ahead) fill();
      commit();
      body(stage.tile, steps - left);
    } else {
      body(stage.tile, steps - left);
      ptx::barrier_sync();  // all threads have read the only stage
      if (left > ahead) fill();
      commit();
    }
  }
}

template <class C, class Loads, class Body>
__device__ __forceinline__ void box_pipeline(Loads& loads, unsigned shared, unsigned barriers, int steps, int warp,
                                             const Body& body) {
  box_pipeline<C>(loads, shared, barriers, steps, 0, warp, body);
}

// Producer warp: one thread fills each stage as soon as it is empty.
template <class C, class Loads>
__device__ __forceinline__ void box_produce(Loads& loads, unsigned shared, unsigned barriers, int steps, int begun = 0) {
  PipelineState<C> stage(shared, barriers, begun);
#pragma unroll 1
  for (int s = 0; s < steps; ++s, stage.advance()) {
    while (!ptx::mbarrier_try_wait(stage.empty(), stage.parity ^ 1u)) {  // in the first round all stages are empty
    }
    ptx::mbarrier_arrive_expect_tx(stage.full(), Loads::tma_bytes);
    loads.fetch(stage.tile, stage.full());
    loads.advance();
  }
}

// Multiplying warps: run `body` for each stage. When `body` returns, only multiplications in flight still read the
// stage.
template <class C, class Body>
__device__ __forceinline__ void box_consume(unsigned shared, unsigned barriers, int steps, int begun, int lane,
                                            const Body& body) {
  PipelineState<C> stage(shared, barriers, begun);
  unsigned unreleased = 0;
  const auto release = [&](unsigned empty) {
    ptx::warp_sync();  // all lanes have read the stage
    if (lane == 0) ptx::mbarrier_arrive(empty);
  };
#pragma unroll 1
  for (int s = 0; s < steps; ++s, stage.advance()) {
    wait_phase(stage.full(), stage.parity);
    body(stage.tile, s);
    if constexpr (C::in_flight == 0) {
      release(stage.empty());
    } else {
      ptx::wgmma_wait_group<1>();
      if (s > 0) release(unreleased);
      unreleased = stage.empty();
    }
  }
  if constexpr (C::in_flight > 0) {
    ptx::wgmma_wait_group<0>();
    if (steps > 0) release(unreleased);
  }
}

template <class C, class Body>
__device__ __forceinline__ void box_consume(unsigned shared, unsigned barriers, int steps, int lane, const Body& body) {
  box_consume<C>(shared, barriers, steps, 0, lane, body);
}

// Loads of a loop whose first product runs one iteration ahead. Stage t contains the tiles that the first product of
// iteration t reads (First), and the tiles that the last product of iteration t - 1 reads (Last). `steps` iterations
// need steps + 1 stages. The first stage has no tiles of Last, and the last stage has no tiles of First.
template <class First, class Last>
struct LoadsAhead {
  First first;
  Last last;
  __device__ __forceinline__ void fill(unsigned tile, unsigned full, int t, int steps) const {
    const int bytes = (t < steps ? First::tma_bytes : 0) + (t > 0 ? Last::tma_bytes : 0);
    ptx::mbarrier_arrive_expect_tx(full, unsigned(bytes));
    if (t < steps) first.fetch(tile, full);
    if (t > 0) last.fetch(tile + unsigned(First::tma_bytes), full);
  }
  __device__ __forceinline__ void advance(int t) {
    first.advance();
    if (t > 0) last.advance();
  }
};

// A type that states at compile time whether another iteration follows.
template <bool Is>
struct More {
  static constexpr bool value = Is;
};

// Runs `steps` iterations whose first product runs one iteration ahead.
// - `first(stage address)` issues the first product of iteration 0 and waits for it.
// - `body(more, stage address, iteration, ready)` executes everything after the first product of an iteration. If
//   `more`, it also issues the first product of the next iteration. When `body` is called, the last product of the
//   previous iteration is still in flight. So `body` must call `ready` before it uses the stage or the sums of this
//   product.
// - `proceed` waits for the stage to be full. If there is a previous stage, `proceed` also releases it.
template <class C, class Proceed, class FirstProduct, class Body>
__device__ __forceinline__ void run_ahead(PipelineState<C>& stage, int steps, const Proceed& proceed,
                                          const FirstProduct& first, const Body& body) {
  proceed(false);
  first(stage.tile);
  stage.advance();
  const auto ready = [&] {
    ptx::wgmma_wait_group<0>();  // the last product of the previous iteration has read its stage
    proceed(true);
  };
#pragma unroll 1
  for (int s = 0; s < steps - 1; ++s, stage.advance()) body(More<true>{}, stage.tile, s, ready);
  body(More<false>{}, stage.tile, steps - 1, ready);
  ptx::wgmma_wait_group<0>();
}

// Without a producer warp: all threads multiply, and one thread also issues the copies.
template <class C, class Loads, class FirstProduct, class Body>
__device__ __forceinline__ void box_pipeline_ahead(Loads& loads, unsigned shared, unsigned barriers, int steps, int warp,
                                                   const FirstProduct& first, const Body& body) {
  static_assert(C::stages >= 2, "rule products_ahead: a product reads one stage while another is filled");
  if (steps <= 0) return;
  PipelineState<C> stage(shared, barriers), next(shared, barriers);
  int filled = 0;
  const auto fill = [&] {
    if (filled > steps) return;
    if (warp == 0 && ptx::elect()) loads.fill(next.tile, next.full(), filled, steps);
    loads.advance(filled);
    next.advance();
    ++filled;
  };
#pragma unroll 1
  for (int s = 0; s < C::stages - 1; ++s) fill();
  run_ahead(
      stage, steps,
      [&](bool gives_back) {
        if (gives_back) ptx::barrier_sync();  // all threads have read the previous stage
        fill();
        wait_phase(stage.full(), stage.parity);
      },
      first, body);
}

// Producer warp: one thread fills each stage as soon as it is empty.
template <class C, class Loads>
__device__ __forceinline__ void box_produce_ahead(Loads& loads, unsigned shared, unsigned barriers, int steps) {
  if (steps <= 0) return;
  PipelineState<C> stage(shared, barriers);
#pragma unroll 1
  for (int t = 0; t <= steps; ++t, stage.advance()) {
    while (!ptx::mbarrier_try_wait(stage.empty(), stage.parity ^ 1u)) {  // in the first round all stages are empty
    }
    loads.fill(stage.tile, stage.full(), t, steps);
    loads.advance(t);
  }
}

// Multiplying warps, if there is a producer warp.
template <class C, class FirstProduct, class Body>
__device__ __forceinline__ void box_consume_ahead(unsigned shared, unsigned barriers, int steps, int lane,
                                                  const FirstProduct& first, const Body& body) {
  static_assert(C::stages >= 2, "rule products_ahead: a product reads one stage while another is filled");
  if (steps <= 0) return;
  PipelineState<C> stage(shared, barriers);
  unsigned unreleased = 0;
  run_ahead(
      stage, steps,
      [&](bool gives_back) {
        if (gives_back) {
          ptx::warp_sync();  // all lanes have waited for the products that read the stage
          if (lane == 0) ptx::mbarrier_arrive(unreleased);
        }
        unreleased = stage.empty();
        wait_phase(stage.full(), stage.parity);
      },
      first, body);
}

// Two warpgroups use the tensor cores alternately. The first warpgroup begins. Each warpgroup waits for the other one
// once before the loop and once in each iteration. Both must have the same number of iterations.
constexpr int first_turn_barrier = 3, turn_threads = 256;
__device__ __forceinline__ void wait_for_turn(int warpgroup) {
  ptx::barrier_sync(first_turn_barrier + warpgroup, turn_threads);
}
__device__ __forceinline__ void pass_turn(int warpgroup) {
  ptx::barrier_arrive(first_turn_barrier + 1 - warpgroup, turn_threads);
}
__device__ __forceinline__ void begin_turns(int warpgroup) {
  if (warpgroup == 1) pass_turn(1);
  wait_for_turn(warpgroup);
}
__device__ __forceinline__ void end_turns(int warpgroup) {
  if (warpgroup == 0) pass_turn(0);
}

}  // namespace autosched::tile
