// out = x, as contiguous bytes. A block copies in `rounds` rounds. In a round every thread copies `unroll` vectors, and
// adjacent threads copy adjacent vectors. Elements after the last whole vector are copied word by word. Data are copied
// through registers, or by cp.async through shared memory, `stages` rounds ahead. A thread only reads data that it
// copied itself, so no barrier is needed.
//
// Config: the parameters and attributes of search_spaces/templates/copy/space.py, and the members Word and bytes.
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/choice.cuh>
#include <autosched/common/aligned_vector.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class C>
struct Copy {
  static constexpr int width = C::vector_x;
  static constexpr bool async = C::copy_x == "cp.async";
  static constexpr bool grid_order = C::order == "grid";
  using Vector = AlignedVector<width>;
  static constexpr long long vectors = C::bytes / width;
  static constexpr long long round = static_cast<long long>(C::threads) * C::unroll;
  using Word = typename C::Word;
  static constexpr int tail = int(C::bytes % width / sizeof(Word));  // number of remaining words
  static_assert(width == 4 || width == 8 || width == 16, "a thread moves 4, 8 or 16 bytes at a time");
  static_assert(async || C::stages == 1, "rule stages: several stages need cp.async");
  static_assert(C::blocks * round * C::rounds >= vectors, "the blocks must cover the array");

  // Index of this thread's first vector in a round. The rounds of a block are adjacent, or a whole grid apart (as in a
  // grid-stride loop).
  __device__ static __forceinline__ long long first_of(int r) {
    const long long index = grid_order ? static_cast<long long>(r) * C::blocks + int(blockIdx.x)
                                          : static_cast<long long>(blockIdx.x) * C::rounds + r;
    return index * round + int(threadIdx.x);
  }
  __device__ static __forceinline__ unsigned slot(unsigned shared, int r, int u) {
    return shared + unsigned((r % C::stages * C::unroll + u) * C::threads + int(threadIdx.x)) * unsigned(width);
  }

  __device__ static __forceinline__ void start(const Vector* x, unsigned shared, int r) {
    const long long first = first_of(r);
#pragma unroll
    for (int u = 0; u < C::unroll; ++u) {
      const long long at = first + u * C::threads;
      if (at < vectors) {
        if constexpr (width == 16) {
          ptx::cp_async_cg(slot(shared, r, u), x + at, width);
        } else {
          ptx::cp_async_ca<width>(slot(shared, r, u), x + at, width);
        }
      }
    }
  }

  // All loads of a round precede its stores, so that they are in flight together.
  __device__ static __forceinline__ void move(const Vector* x, Vector* out, unsigned shared, int r) {
    const long long first = first_of(r);
    Vector held[C::unroll];
#pragma unroll
    for (int u = 0; u < C::unroll; ++u) {
      const long long at = first + u * C::threads;
      held[u] = Vector{};
      if (at < vectors) {
        if constexpr (async) {
          held[u] = ptx::ld_shared<width>(slot(shared, r, u));
        } else {
          held[u] = load_read_only<load_hint(C::cache_hint_x), width>(x + at);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < C::unroll; ++u) {
      const long long at = first + u * C::threads;
      if (at < vectors) store<store_hint(C::cache_hint_out)>(out + at, held[u]);
    }
  }

  __device__ static __forceinline__ void run(const Word* from, Word* to) {
    const Vector* x = reinterpret_cast<const Vector*>(from);
    Vector* out = reinterpret_cast<Vector*>(to);
    if constexpr (async) {
      const unsigned shared = ptx::shared_memory();
      constexpr int ahead = C::stages - 1;
#pragma unroll
      for (int r = 0; r < ahead; ++r) {
        start(x, shared, r);
        ptx::cp_async_commit_group();
      }
#pragma unroll 1
      for (int r = 0; r < C::rounds; ++r) {
        if (r + ahead < C::rounds) start(x, shared, r + ahead);
        ptx::cp_async_commit_group();
        ptx::cp_async_wait_group<ahead>();
        move(x, out, shared, r);
      }
    } else {
#pragma unroll 1
      for (int r = 0; r < C::rounds; ++r) move(x, out, 0u, r);
    }
    if constexpr (tail > 0) {
      if (blockIdx.x == 0 && int(threadIdx.x) < tail) {
        const long long at = vectors * width / int(sizeof(Word)) + int(threadIdx.x);
        ptx::st_global(to + at, ptx::ld_global_nc<int(sizeof(Word))>(from + at));
      }
    }
  }
};

template <class Config>
__device__ __forceinline__ void copy(const typename Config::Word* x, typename Config::Word* out) {
  Copy<Config>::run(x, out);
}

}  // namespace autosched
