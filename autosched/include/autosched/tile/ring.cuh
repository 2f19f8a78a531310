// A ring of shared-memory stages for the staged loads of a loop. A stage contains the tiles of all loads of an
// iteration.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>

namespace autosched::tile {

// The copies for all loads of a loop. Their tiles are adjacent in a stage.
template <class... Operands>
struct Loads;
template <>
struct Loads<> {
  static constexpr bool any_async = false;
  template <bool Whole>
  __device__ __forceinline__ void start(unsigned) const {}
  template <bool Whole>
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void store(unsigned) const {}
  __device__ __forceinline__ void advance() {}
};
template <class First, class... Rest>
struct Loads<First, Rest...> {
  static constexpr bool any_async = First::copy_async || Loads<Rest...>::any_async;
  typename First::Copy copy;
  Loads<Rest...> rest;
  // Whole: true if the iteration is not the last one. If First::whole is true, too, the iteration's tiles are
  // completely inside the arrays.
  template <bool Whole>
  __host__ __device__ static constexpr int known() {
    if constexpr (Whole) {
      return First::whole;
    } else {
      return 0;
    }
  }
  template <bool Whole>
  __device__ __forceinline__ void start(unsigned at) const {
    if constexpr (First::copy_async) copy.template start<known<Whole>()>(at);
    rest.template start<Whole>(at + First::stage_bytes);
  }
  template <bool Whole>
  __device__ __forceinline__ void load() {
    if constexpr (!First::copy_async) copy.template load<known<Whole>()>();
    rest.template load<Whole>();
  }
  __device__ __forceinline__ void store(unsigned at) const {
    if constexpr (!First::copy_async) copy.store(at);
    rest.store(at + First::stage_bytes);
  }
  __device__ __forceinline__ void advance() {
    First::advance(copy);
    rest.advance();
  }
};

// Whole: the tiles that this iteration loads are completely inside the arrays.
template <bool Whole>
struct Loading {
  static constexpr bool whole = Whole;
};

// Starts the loads of the first `stages - 1` iterations, or of the first iteration if there is only one stage.
template <class C, class Loads>
__device__ __forceinline__ void start_ring(Loads& loads, unsigned shared, int steps) {
  constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;
#pragma unroll 1
  for (int s = 0; s < ahead; ++s) {
    if (s < steps) {
      const unsigned at = shared + unsigned(s * C::stage_bytes);
      loads.template start<false>(at);
      loads.template load<false>();
      loads.store(at);
      loads.advance();
    }
    if constexpr (Loads::any_async) ptx::cp_async_commit_group();
  }
}

// Runs `body(stage address, iteration)` for each of `steps` iterations, while the loads of later iterations are in
// flight. An iteration has one commit group, one wait and one barrier. If there is only one stage, a second barrier
// precedes its refilling. If `last` is a different function than `body`, it replaces `body` in the last iterations; all
// other iterations then only load tiles that are inside the arrays. If Begun, the caller has already started the first
// loads and has advanced `loads` to the next ones.
template <class C, bool Begun = false, class Loads, class Body, class Last>
__device__ __forceinline__ void pipeline(Loads& loads, unsigned shared, int steps, const Body& body, const Last& last) {
  constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;
  constexpr bool peeled = !is_same<Body, Last>;
  const auto commit = [] {
    if constexpr (Loads::any_async) ptx::cp_async_commit_group();
  };
  const auto stage_at = [&](int stage) { return shared + unsigned(stage * C::stage_bytes); };
  if constexpr (!Begun) start_ring<C>(loads, shared, steps);
  int stage = 0, fill = C::stages > 1 ? C::stages - 1 : 0;
  const auto turn = [&](int left, const auto& run, auto loading) {
    constexpr bool whole = decltype(loading)::whole;
    if constexpr (Loads::any_async) ptx::cp_async_wait_group<(C::stages >= 2 ? C::stages - 2 : 0)>();
    ptx::barrier_sync();
    const bool more = whole || left > ahead;
    const unsigned tile = stage_at(stage);
    if constexpr (C::stages > 1) {
      // Stage `fill` was read in the previous iteration. The barrier ensures that all threads have finished reading it.
      if (more) {
        loads.template start<whole>(stage_at(fill));
        loads.template load<whole>();
      }
      commit();
      run(tile, steps - left);
      if (more) loads.store(stage_at(fill));
      loads.advance();
      stage = stage + 1 == C::stages ? 0 : stage + 1;
      fill = fill + 1 == C::stages ? 0 : fill + 1;
    } else {
      if (more) loads.template load<whole>();
      run(tile, steps - left);
      ptx::barrier_sync();  // all threads have read the only stage
      if (more) {
        loads.template start<whole>(tile);
        loads.store(tile);
        loads.advance();
      }
      commit();
    }
  };
  int left = steps;
  if constexpr (peeled) {
#pragma unroll 1
    for (; left > ahead + 1; --left) turn(left, body, Loading<true>{});
  }
#pragma unroll 1
  for (; left > 0; --left) turn(left, last, Loading<false>{});
}
template <class C, bool Begun = false, class Loads, class Body>
__device__ __forceinline__ void pipeline(Loads& loads, unsigned shared, int steps, const Body& body) {
  pipeline<C, Begun>(loads, shared, steps, body, body);
}

// Like `pipeline`, but each iteration only multiplies fragments, in Steps steps, and uses two buffers of fragments.
// `read(stage address, step, buffer)` loads the fragments of the next step while `multiply(buffer)` multiplies the
// current fragments. The last fragments of an iteration are multiplied after the barrier of the next iteration, so that
// tensor cores have work after the barrier. Peeled: only the last iterations load tiles that are not completely inside
// the arrays.
template <class C, int Steps, bool Peeled, bool Begun = false, class Loads, class Read, class Multiply>
__device__ __forceinline__ void fragment_pipeline(Loads& loads, unsigned shared, int steps, const Read& read,
                                                  const Multiply& multiply) {
  static_assert(C::stages > 1 && Steps % 2 == 0, "rules fragment_stages and fragment_steps");
  constexpr int ahead = C::stages - 1;
  const auto stage_at = [&](int stage) { return shared + unsigned(stage * C::stage_bytes); };
  const auto behind = [](int at) { return at + 1 == C::stages ? 0 : at + 1; };
  const auto landed = [] {
    ptx::cp_async_wait_group<ahead - 1>();
    ptx::barrier_sync();
  };
  if constexpr (!Begun) start_ring<C>(loads, shared, steps);
  landed();
  unsigned tile = shared;
  if (steps > 0) read(tile, 0, 0);
  int stage = 0, fill = ahead;
  const auto turn = [&](int left, auto loading) {
    constexpr bool whole = decltype(loading)::whole;
#pragma unroll
    for (int step = 0; step < Steps; ++step) {
      if (step + 1 < Steps) {
        read(tile, step + 1, (step + 1) % 2);
      } else {
        // All fragments of this iteration are in registers.
        stage = behind(stage);
        tile = stage_at(stage);
        landed();
        if (whole || left > 1) read(tile, 0, 0);
      }
      if (step == 0) {
        // Stage `fill` was read in the previous iteration. The last barrier ensures that all threads have finished
        // reading it.
        if (whole || left > ahead) loads.template start<whole>(stage_at(fill));
        loads.advance();
        ptx::cp_async_commit_group();
        fill = behind(fill);
      }
      multiply(step % 2);
    }
  };
  int left = steps;
  if constexpr (Peeled) {
#pragma unroll 1
    for (; left - 1 > ahead; --left) turn(left, Loading<true>{});
  }
#pragma unroll 1
  for (; left > 0; --left) turn(left, Loading<false>{});
}

}  // namespace autosched::tile
