// The ring of shared-memory stages that a loop's staged loads go through: one stage holds the tiles of all of them.
#pragma once
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>

namespace autosched::tile {

// The copies of a loop's loads, one after another in a stage.
template <class... Operands>
struct Loads;
template <>
struct Loads<> {
  static constexpr bool any_async = false;
  __device__ __forceinline__ void start(unsigned) const {}
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void store(unsigned) const {}
  __device__ __forceinline__ void advance() {}
};
template <class First, class... Rest>
struct Loads<First, Rest...> {
  static constexpr bool any_async = First::copy_async || Loads<Rest...>::any_async;
  typename First::Copy copy;
  Loads<Rest...> rest;
  __device__ __forceinline__ void start(unsigned at) const {
    if constexpr (First::copy_async) copy.start(at);
    rest.start(at + First::stage_bytes);
  }
  __device__ __forceinline__ void load() {
    if constexpr (!First::copy_async) copy.load();
    rest.load();
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

// Runs `body(stage address, turn)` for each of `steps`, with the loads of later steps on their way. One commit group, one wait
// and one barrier a step; a single stage needs a second barrier before it is filled again.
template <class C, class Loads, class Body>
__device__ __forceinline__ void pipeline(Loads& loads, unsigned shared, int steps, const Body& body) {
  constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;
  const auto commit = [] {
    if constexpr (Loads::any_async) ptx::cp_async_commit_group();
  };
  const auto stage_at = [&](int stage) { return shared + unsigned(stage * C::stage_bytes); };
#pragma unroll 1
  for (int s = 0; s < ahead; ++s) {
    if (s < steps) {
      loads.start(stage_at(s));
      loads.load();
      loads.store(stage_at(s));
      loads.advance();
    }
    commit();
  }
  int stage = 0, fill = C::stages > 1 ? C::stages - 1 : 0;
#pragma unroll 1
  for (int left = steps; left > 0; --left) {
    if constexpr (Loads::any_async) ptx::cp_async_wait_group<(C::stages >= 2 ? C::stages - 2 : 0)>();
    ptx::barrier_sync();
    const bool more = left > ahead;
    const unsigned tile = stage_at(stage);
    if constexpr (C::stages > 1) {
      // Stage `fill` was read in the previous step; the barrier says that everybody is done with it.
      if (more) {
        loads.start(stage_at(fill));
        loads.load();
      }
      commit();
      body(tile, steps - left);
      if (more) loads.store(stage_at(fill));
      loads.advance();
      stage = stage + 1 == C::stages ? 0 : stage + 1;
      fill = fill + 1 == C::stages ? 0 : fill + 1;
    } else {
      if (more) loads.load();
      body(tile, steps - left);
      ptx::barrier_sync();  // everybody has read the only stage
      if (more) {
        loads.start(tile);
        loads.store(tile);
        loads.advance();
      }
      commit();
    }
  }
}

}  // namespace autosched::tile
