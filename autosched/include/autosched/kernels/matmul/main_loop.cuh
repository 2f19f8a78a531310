// The main loop of a matmul, in which copies of later k-tiles overlap the arithmetic of the current k-tile.
#pragma once
#include <autosched/kernels/matmul/block_scales.cuh>
#include <autosched/kernels/matmul/fragments.cuh>
#include <autosched/kernels/matmul/loader.cuh>
#include <autosched/kernels/matmul/operands.cuh>
#include <autosched/kernels/matmul/warp_tile.cuh>
#include <autosched/ptx/barrier.cuh>

namespace autosched {

template <class C>
struct MatmulLoop {
  using I = typename C::Intrinsic;
  using A = OperandA<C>;
  using B = OperandB<C>;
  using Loader = MatmulLoader<C>;
  using Warp = WarpTile<C>;
  using Accumulators = typename Warp::Accumulators;
  using Scales = ScalesOf<C>;
  using Words = typename Scales::Words;

  using Fragments = MatmulFragments<C, A, B>;
  static constexpr int tile_steps = C::tile_k / I::k;
  // Number of k-tiles whose copies are started before the first k-tile is used.
  static constexpr int ahead = C::stages > 1 ? C::stages - 1 : 1;

  // Starts the copies of the first k-tiles.
  __device__ static __forceinline__ void start(Loader& loader, int tiles) {
#pragma unroll 1
    for (int s = 0; s < ahead; ++s) {
      if (s < tiles) {
        loader.start(s);
        loader.load();
        loader.store(s);
        loader.advance();
      }
      Loader::commit();
    }
  }

  __device__ static __forceinline__ void multiply_tile(Accumulators& acc, unsigned tile, const Words& scales, int warp_m,
                                                       int warp_n, int lane) {
#pragma unroll C::unroll
    for (int step = 0; step < tile_steps; ++step) {
      Fragments fragments;
      fragments.load(tile, step, warp_m, warp_n, lane);
      fragments.multiply(acc, scales, step);
    }
  }

  // The main loop with two buffers of fragments. The fragments of the next step are loaded while the current step is
  // multiplied, even across the barrier between k-tiles, so that tensor cores have work after the barrier.
  __device__ static __forceinline__ void pipelined_loop(Accumulators& acc, Loader& loader, Scales& scales, int tiles,
                                                        int warp_m, int warp_n, int lane) {
    constexpr int pending = C::stages - 2;
    const auto behind = [](int at) { return at + 1 == C::stages ? 0 : at + 1; };
    Fragments held[2];
    Words words = scales.take();
    unsigned tile = loader.shared;
    int stage = 0, fill = ahead;
    Loader::template wait<pending>();
    held[0].load(tile, 0, warp_m, warp_n, lane);
#pragma unroll 1
    for (int left = tiles; left > 0; --left) {
      const Words next = scales.take();
#pragma unroll
      for (int step = 0; step < tile_steps; ++step) {
        if (step + 1 < tile_steps) {
          held[(step + 1) % 2].load(tile, step + 1, warp_m, warp_n, lane);
        } else {
          // All fragments of this k-tile are in registers.
          stage = behind(stage);
          tile = loader.shared + unsigned(stage * C::stage_bytes);
          Loader::template wait<pending>();
          if (left > 1) held[0].load(tile, 0, warp_m, warp_n, lane);
        }
        if (step == 0) {
          // Stage `fill` contains the previous k-tile. All warps finished reading it before the last barrier.
          if (left > ahead) loader.start(fill);
          loader.advance();
          Loader::commit();
          fill = behind(fill);
        }
        held[step % 2].multiply(acc, words, step);
      }
      words = next;
    }
  }

  // The main loop with one buffer of fragments, which are loaded at the beginning of each step.
  __device__ static __forceinline__ void main_loop(Accumulators& acc, Loader& loader, Scales& scales, int tiles,
                                                   int warp_m, int warp_n, int lane) {
    int stage = 0, fill = C::stages > 1 ? C::stages - 1 : 0;
    Words words = scales.take();
#pragma unroll 1
    for (int left = tiles; left > 0; --left) {
      const Words next = scales.take();
      Loader::template wait<C::stages >= 2 ? C::stages - 2 : 0>();
      const bool more = left > ahead;
      const unsigned tile = loader.shared + unsigned(stage * C::stage_bytes);
      if constexpr (C::stages > 1) {
        // Stage `fill` was read in the previous iteration. The barrier above ensures that all warps have finished
        // reading it.
        if (more) {
          loader.start(fill);
          loader.load();
        }
        Loader::commit();
        multiply_tile(acc, tile, words, warp_m, warp_n, lane);
        if (more) loader.store(fill);
        loader.advance();
        stage = stage + 1 == C::stages ? 0 : stage + 1;
        fill = fill + 1 == C::stages ? 0 : fill + 1;
      } else {
        if (more) loader.load();
        multiply_tile(acc, tile, words, warp_m, warp_n, lane);
        ptx::barrier_sync();  // all threads have read the only stage, so it can be filled again
        if (more) {
          loader.start(0);
          loader.store(0);
          loader.advance();
        }
        Loader::commit();
      }
      words = next;
    }
  }

  // Multiplies all k-tiles. The copies of the first k-tiles must have been started.
  __device__ static __forceinline__ void multiply(Accumulators& acc, Loader& loader, Scales scales, int tiles, int warp_m,
                                                  int warp_n, int lane) {
    if constexpr (C::fragment_buffers == 2) {
      pipelined_loop(acc, loader, scales, tiles, warp_m, warp_n, lane);
    } else {
      main_loop(acc, loader, scales, tiles, warp_m, warp_n, lane);
    }
  }
};

}  // namespace autosched
