// Reductions of the rows or the columns of an array, and normalizations of its rows, in one launch.
//
// The array is outer x length x inner. `length` is reduced; what is kept of one `outer` index, the *kept* axis, are
// the rows where inner is 1 (`along`: the reduction runs along contiguous memory), else the inner elements. A block
// reduces kept_tile kept elements of one outer index. Its threads are distributed as a LoweringConfig says (IREE issue
// 22153): over the kept axis subgroup, then batch, then lane, then the vector where the kept axis is contiguous; over
// the reduced axis step by step subgroup, then unroll, then lane, then the vector where that one is contiguous.
//
// With split > 1 several blocks reduce parts of the same rows, and the last of them to finish puts the parts together,
// in the order of the parts, and does the rest. Or the kernel is launched a second time, and there each of the blocks
// puts the parts together and normalizes its own.
//
// Rows whose length no vector divides begin anywhere between two vectors. Peeled, such a row is walked in aligned
// vectors from the one that its first element is in: places along the row then count from the start of that vector,
// `shift` elements before the row, and elements of a vector that are not the row's are neither read nor written.
//
// Config (see search_spaces/templates/row_reduction/lowering.py, which writes it):
//   problem   T, Out, Op, outer, length, inner, kept_extent, along, normalizes, has_weight, has_bias, eps
//   schedule  lanes, subgroups (along the reduced axis), kept_subgroups, batch, vector, peel, unroll, split, finish, keep, x_cache, out_cache
//   derived   kept_tile, chunk (elements of one split), combine_at, keep_at (offsets in shared memory)
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/kernels/row_operators.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

// Where a row waits between two passes over it: in registers, in shared memory, or in global memory (L2 has it).
enum class Keep { registers, shared, reload };

// Who puts the parts of a split row together.
enum class Finish { last_block, second_launch };

template <class Config>
struct RowReduction {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;
  using Op = typename C::Op;
  template <int Pass>
  using State = typename Op::template State<Pass>;

  static constexpr int kept_lanes = 32 / C::lanes;
  static constexpr int threads = C::subgroups * C::kept_subgroups * 32;
  static constexpr int kept_vector = C::along ? 1 : C::vector, reduced_vector = C::along ? C::vector : 1;
  static constexpr int lane_stride = C::along ? 1 : kept_lanes;  // between neighbours along the reduced axis
  static constexpr int kept_each = C::batch * kept_vector;       // kept elements of a thread
  static constexpr int kept_threads = C::kept_subgroups * kept_lanes;
  static constexpr int slots = kept_each * kept_threads;  // kept elements of the block, as shared memory has them
  static constexpr bool peel = C::peel && C::vector > 1;
  static constexpr int span = peel ? C::length + C::vector - 1 : C::length;  // places of a row
  static constexpr int step = C::subgroups * C::unroll * C::lanes * reduced_vector;
  static constexpr int steps = ceil_div(C::chunk, step);
  static constexpr int packets = steps * C::unroll * C::batch;  // of a thread
  static constexpr int bytes = C::vector * int(sizeof(T));
  static constexpr int tiles = ceil_div(C::kept_extent, C::kept_tile);
  static constexpr bool again = C::finish == Finish::second_launch;
  static constexpr bool in_registers = C::keep == Keep::registers, in_shared = C::keep == Keep::shared;
  static constexpr bool whole_steps = span % C::chunk == 0 && C::chunk % step == 0;
  static constexpr bool whole_tiles = C::kept_extent % C::kept_tile == 0;

  static_assert(threads <= 1024, "rule threads: at most 1024 threads a block");
  static_assert(C::kept_tile == slots, "rule kept_tile: subgroups x batch x lanes x vector make the tile");
  static_assert(C::peel ? C::along : (C::along ? C::length : C::inner) % C::vector == 0,
                "rule vector_alignment: the vector must divide the contiguous extent, or rows be peeled");
  static_assert(bytes <= 16, "rule vector_width: a thread moves at most 16 bytes at a time");
  static_assert(!in_shared || bytes >= 4, "rule keep_width: cp.async moves 4, 8 or 16 bytes");
  static_assert((C::split - 1) * static_cast<long long>(C::chunk) < C::length,
                "rule split_filled: every split needs elements");
  static_assert(C::split == 1 || (Op::passes == 1 && C::keep == Keep::reload),
                "rule split_keep: split rows are reduced in one pass and read again");
  static_assert(!again || (C::split > 1 && C::normalizes), "rule finish: a second launch normalizes split rows");
  static_assert(!C::normalizes || C::along, "rule along: normalizations run along contiguous memory");

  struct Kept {
    AlignedVector<bytes> packet[in_registers ? packets : 1];
  };

  // This thread's place.
  int lane_reduced, warp_reduced, lane_kept, warp_kept;
  // First and last element of the block's part of the rows.
  int begin, end;
  int tile;
  const T* row[C::batch];  // place 0 of kept(b) in the array; not read where kept(b) is outside
  int shift[C::batch];

  __device__ __forceinline__ RowReduction(const T* x, int outer, int tile_, int begin_, int end_)
      : begin(begin_), end(end_), tile(tile_) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    lane_reduced = C::along ? lane % C::lanes : lane / kept_lanes;
    lane_kept = C::along ? lane / C::lanes : lane % kept_lanes;
    warp_reduced = warp % C::subgroups;
    warp_kept = warp / C::subgroups;
#pragma unroll
    for (int b = 0; b < C::batch; ++b) {
      const long long kept_stride = C::along ? C::length : 1;
      const long long first = static_cast<long long>(outer) * C::length * C::inner + kept(b) * kept_stride;
      shift[b] = peel ? int(first % C::vector) : 0;
      row[b] = x + first - shift[b];
    }
  }

  // The b-th kept element of this thread (the first of its vector).
  __device__ __forceinline__ int kept(int b) const {
    return tile * C::kept_tile + ((warp_kept * C::batch + b) * kept_lanes + lane_kept) * kept_vector;
  }
  __device__ __forceinline__ int slot(int j) const { return j * kept_threads + warp_kept * kept_lanes + lane_kept; }
  // The reduced index of packet u of a step (of the first element of its vector).
  __device__ __forceinline__ int reduced(int s, int u) const {
    return begin + s * step + ((warp_reduced * C::unroll + u) * C::lanes + lane_reduced) * reduced_vector;
  }
  __device__ __forceinline__ bool kept_inside(int b) const { return whole_tiles || kept(b) < C::kept_extent; }
  __device__ __forceinline__ bool reduced_inside(int at) const { return whole_steps || at < end; }
  __device__ __forceinline__ bool inside(int b, int at) const { return kept_inside(b) && reduced_inside(at); }
  // Whether all elements of the vector at place `at` are the row's, and whether element e is.
  __device__ __forceinline__ bool all_inside(int b, int at) const {
    return !peel || (at >= shift[b] && at - shift[b] + C::vector <= C::length);
  }
  __device__ __forceinline__ bool element_inside(int b, int at, int e) const {
    const int index = at - shift[b] + e;
    return index >= 0 && index < C::length;
  }
  __device__ __forceinline__ const T* address(int b, int at) const {
    return row[b] + static_cast<long long>(at) * C::inner;
  }
  // The vector at place `at`, zeros for what is not the row's.
  __device__ __forceinline__ AlignedVector<bytes> load(int b, int at) const {
    if constexpr (peel) {
      if (!all_inside(b, at)) {
        AlignedVector<bytes> packet = {};
#pragma unroll
        for (int e = 0; e < C::vector; ++e) {
          if (!element_inside(b, at, e)) continue;
          put_element<T>(packet, e, load_read_only<C::x_cache, int(sizeof(T))>(address(b, at) + e));
        }
        return packet;
      }
    }
    return load_read_only<C::x_cache, bytes>(address(b, at));
  }
  __device__ __forceinline__ static unsigned kept_address(unsigned shared, int s, int u, int b) {
    return shared + C::keep_at + unsigned((((s * C::unroll + u) * C::batch + b) * threads + int(threadIdx.x)) * bytes);
  }

  // Brings the block's rows to where they are kept. A thread reads what it brought itself: no barrier.
  __device__ __forceinline__ void keep(Kept& kept_packets, unsigned shared) const {
    if constexpr (in_registers) {
#pragma unroll
      for (int i = 0; i < packets; ++i) {
        const int u = i / C::batch % C::unroll, b = i % C::batch, at = reduced(i / C::batch / C::unroll, u);
        kept_packets.packet[i] = AlignedVector<bytes>{};
        if (inside(b, at)) kept_packets.packet[i] = load(b, at);
      }
    } else if constexpr (in_shared) {
#pragma unroll 1
      for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int i = 0; i < C::unroll * C::batch; ++i) {
          const int u = i / C::batch, b = i % C::batch, at = reduced(s, u);
          if (!inside(b, at)) continue;
          if (!all_inside(b, at)) {
            ptx::st_shared(kept_address(shared, s, u, b), load(b, at));
          } else if constexpr (bytes == 16) {
            ptx::cp_async_cg(kept_address(shared, s, u, b), address(b, at), bytes);
          } else {
            ptx::cp_async_ca<bytes>(kept_address(shared, s, u, b), address(b, at), bytes);
          }
        }
      }
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
    }
  }

  // All packets of one step; those outside are left as they are.
  __device__ __forceinline__ void fetch(AlignedVector<bytes> (&p)[C::unroll][C::batch], const Kept& kept_packets,
                                        unsigned shared, int s) const {
#pragma unroll
    for (int u = 0; u < C::unroll; ++u) {
      const int at = reduced(s, u);
#pragma unroll
      for (int b = 0; b < C::batch; ++b) {
        if (!inside(b, at)) continue;
        if constexpr (in_registers) {
          p[u][b] = kept_packets.packet[(s * C::unroll + u) * C::batch + b];
        } else if constexpr (in_shared) {
          p[u][b] = ptx::ld_shared<bytes>(kept_address(shared, s, u, b));
        } else {
          p[u][b] = load(b, at);
        }
      }
    }
  }

  // Calls use(elements, at, b) for every packet inside, in ascending order for each b.
  template <class Use>
  __device__ __forceinline__ void for_each(const Kept& kept_packets, unsigned shared, int count, Use use) const {
#pragma unroll(in_registers ? steps : 1)
    for (int s = 0; s < count; ++s) {
      AlignedVector<bytes> p[C::unroll][C::batch];
      fetch(p, kept_packets, shared, s);
#pragma unroll
      for (int u = 0; u < C::unroll; ++u) {
        const int at = reduced(s, u);
#pragma unroll
        for (int b = 0; b < C::batch; ++b) {
          if (!inside(b, at)) continue;
          float x[C::vector];
#pragma unroll
          for (int e = 0; e < C::vector; ++e) x[e] = get_element<T>(p[u][b], e);
          use(x, at, b);
        }
      }
    }
  }

  // The states of this thread's kept elements, of the block's part of the rows; all threads of a row have them.
  template <int Pass>
  __device__ __forceinline__ void reduce(State<Pass> (&states)[kept_each], const RowScale (&scales)[kept_each],
                                         const Kept& kept_packets, unsigned shared) const {
    if constexpr (Op::indexed) {
      // Where all are -infinity nothing exceeds the initial maximum, and the first element is the one.
      const int at = reduced(0, 0);
#pragma unroll
      for (int j = 0; j < kept_each; ++j) {
        const int b = j / kept_vector, first = at - shift[b];
        if (reduced_inside(at)) states[j].index = unsigned(first < 0 ? 0 : first);
      }
    }
    for_each(kept_packets, shared, steps, [&](const float(&x)[C::vector], int at, int b) {
      if constexpr (C::along) {
        if (all_inside(b, at)) {
          Op::template add<Pass, C::vector>(states[b], x, at - shift[b], scales[b]);
          return;
        }
#pragma unroll
        for (int e = 0; e < C::vector; ++e) {
          if (element_inside(b, at, e)) Op::template add<Pass, 1>(states[b], x + e, at - shift[b] + e, scales[b]);
        }
      } else {
#pragma unroll
        for (int e = 0; e < C::vector; ++e) {
          Op::template add<Pass, 1>(states[b * C::vector + e], x + e, at, scales[b * C::vector + e]);
        }
      }
    });
#pragma unroll
    for (int j = 0; j < kept_each; ++j) reduce_lanes<C::lanes, lane_stride>(states[j]);
    if constexpr (C::subgroups > 1) combine_subgroups<Pass>(states, shared);
  }

  template <int Pass>
  __device__ __forceinline__ void combine_subgroups(State<Pass> (&states)[kept_each], unsigned shared) const {
    constexpr int words = State<Pass>::words;
    // Every pass has an area of its own: nobody waits until the states of the pass before have been read.
    const unsigned area = shared + C::combine_at + unsigned(Pass * State<0>::words * C::subgroups * slots * 4);
    const auto at = [&](int subgroup, int word, int j) {
      return area + unsigned((subgroup * words + word) * slots + slot(j)) * 4u;
    };
    if (lane_reduced == 0) {
#pragma unroll
      for (int j = 0; j < kept_each; ++j) {
#pragma unroll
        for (int w = 0; w < words; ++w) ptx::st_shared(at(warp_reduced, w, j), AlignedVector<4>{{states[j].get(w)}});
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < kept_each; ++j) {
      const auto load = [&](State<Pass>& state, int subgroup) {
#pragma unroll
        for (int w = 0; w < words; ++w) state.set(w, ptx::ld_shared<4>(at(subgroup, w, j)).word[0]);
      };
      states[j] = reduce_parts<C::subgroups, C::lanes, lane_stride, State<Pass>>(lane_reduced, load);
    }
  }

  // Word `word` of part `part` of the row of state j.
  __device__ __forceinline__ float* partial(float* partials, long long group, int part, int word, int j) const {
    return partials + ((group * C::split + part) * State<0>::words + word) * slots + slot(j);
  }
  __device__ __forceinline__ void store_part(const State<0> (&states)[kept_each], float* partials, long long group,
                                             int split) const {
    if (lane_reduced != 0 || warp_reduced != 0) return;
#pragma unroll
    for (int j = 0; j < kept_each; ++j) {
#pragma unroll
      for (int w = 0; w < State<0>::words; ++w) {
        ptx::st_global(partial(partials, group, split, w, j), AlignedVector<4>{{states[j].get(w)}});
      }
    }
  }
  // Puts the parts of a split row together.
  __device__ __forceinline__ void combine_parts(State<0> (&states)[kept_each], float* partials, long long group) const {
#pragma unroll
    for (int j = 0; j < kept_each; ++j) {
      const auto load = [&](State<0>& state, int part) {
#pragma unroll
        for (int w = 0; w < State<0>::words; ++w) {
          state.set(w, ptx::ld_global_cg<4>(partial(partials, group, part, w, j)).word[0]);
        }
      };
      states[j] = reduce_parts<C::split, C::lanes, lane_stride, State<0>>(lane_reduced, load);
    }
  }

  // Count neighbours, 16 bytes at a time at the most.
  template <int Count>
  __device__ __forceinline__ static void store(Out* to, const float* x) {
    constexpr int widest = 16 / int(sizeof(Out)), width = Count < widest ? Count : widest;
#pragma unroll
    for (int i = 0; i < Count; i += width) autosched::store<C::out_cache>(to + i, pack<Out, width>(x + i));
  }

  // One result for each kept element.
  __device__ __forceinline__ void store_results(const State<0> (&states)[kept_each], Out* out) const {
    if (lane_reduced != 0 || warp_reduced != 0) return;
#pragma unroll
    for (int b = 0; b < C::batch; ++b) {
      if (!kept_inside(b)) continue;
      if constexpr (Op::indexed) {
#pragma unroll
        for (int e = 0; e < kept_vector; ++e) {
          ptx::st_global(out + kept(b) + e, AlignedVector<4>{{states[b * kept_vector + e].index}});
        }
      } else {
        float x[kept_vector];
#pragma unroll
        for (int e = 0; e < kept_vector; ++e) x[e] = Op::result(states[b * kept_vector + e], float(C::length));
        store<kept_vector>(out + kept(b), x);
      }
    }
  }

  // A vector of weight or bias, for the vector at place `at`. That of a peeled row is not aligned in them.
  __device__ __forceinline__ AlignedVector<bytes> of_columns(const T* operand, int b, int at) const {
    if constexpr (peel) {
      AlignedVector<bytes> packet = {};
#pragma unroll
      for (int e = 0; e < C::vector; ++e) {
        if (!element_inside(b, at, e)) continue;
        put_element<T>(packet, e, ptx::ld_global_nc<int(sizeof(T))>(operand + (at - shift[b] + e)));
      }
      return packet;
    } else {
      return ptx::ld_global_nc<bytes>(operand + at);
    }
  }

  // Every element of the rows.
  __device__ __forceinline__ void normalize(const RowScale (&scales)[kept_each], const Kept& kept_packets,
                                            unsigned shared, const T* weight, const T* bias, Out* out) const {
    constexpr int all_steps = again ? steps : ceil_div(span, step);  // the last block of a split row finishes all of it
    for_each(kept_packets, shared, all_steps, [&](const float(&x)[C::vector], int at, int b) {
      float y[C::vector];
#pragma unroll
      for (int e = 0; e < C::vector; ++e) y[e] = Op::apply(x[e], scales[b]);
      if constexpr (C::has_weight) {
        const auto w = of_columns(weight, b, at);
#pragma unroll
        for (int e = 0; e < C::vector; ++e) y[e] *= get_element<T>(w, e);
      }
      if constexpr (C::has_bias) {
        const auto w = of_columns(bias, b, at);
#pragma unroll
        for (int e = 0; e < C::vector; ++e) y[e] += get_element<T>(w, e);
      }
      Out* to = out + static_cast<long long>(kept(b)) * C::length + at - shift[b];
      if (all_inside(b, at)) {
        store<C::vector>(to, y);
        return;
      }
#pragma unroll
      for (int e = 0; e < C::vector; ++e) {
        if (element_inside(b, at, e)) store<1>(to + e, y + e);
      }
    });
  }

  __device__ __forceinline__ static void run(const T* x, const T* weight, const T* bias, Out* out, float* partials,
                                             unsigned* counters) {
    const int split = int(blockIdx.x) % C::split, group = int(blockIdx.x) / C::split;
    const int outer = group / tiles, tile = group % tiles;
    const int begin = split * C::chunk, next = begin + C::chunk;
    RowReduction here(x, outer, tile, begin, next < span ? next : span);
    const unsigned shared = ptx::shared_memory();

    Kept kept_packets;
    here.keep(kept_packets, shared);
    RowScale scales[kept_each];
    State<0> states[kept_each];
    bool second = false;
    if constexpr (again) second = is_second_launch<C::split>(counters + group, shared);
    if (!second) here.template reduce<0>(states, scales, kept_packets, shared);
    if constexpr (C::split > 1) {
      if (!second) {
        here.store_part(states, partials, group, split);
        if (again || !is_last_block<C::split>(counters + group, shared)) return;
      }
      here.combine_parts(states, partials, group);
    }
    if constexpr (!C::normalizes) {
      here.store_results(states, out + static_cast<long long>(outer) * C::kept_extent);
    } else {
#pragma unroll
      for (int j = 0; j < kept_each; ++j) Op::template finish<0>(scales[j], states[j], float(C::length), C::eps);
      if constexpr (Op::passes == 2) {
        State<1> second[kept_each];
        here.template reduce<1>(second, scales, kept_packets, shared);
#pragma unroll
        for (int j = 0; j < kept_each; ++j) Op::template finish<1>(scales[j], second[j], float(C::length), C::eps);
      }
      if constexpr (!again) {
        here.begin = 0;
        here.end = span;
      }
      here.normalize(scales, kept_packets, shared, weight, bias, out);
    }
  }
};

template <class Config>
__device__ __forceinline__ void row_reduction(const typename Config::T* x, const typename Config::T* weight,
                                              const typename Config::T* bias, typename Config::Out* out,
                                              float* partials, unsigned* counters) {
  RowReduction<Config>::run(x, weight, bias, out, partials, counters);
}

}  // namespace autosched
