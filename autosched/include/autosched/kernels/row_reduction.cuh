// Reductions of the rows or the columns of an array, and normalizations of its rows, in one or two launches.
//
// The array is outer x length x inner. `length` is the reduced axis. Each position on the parallel axis is one
// reduction: of a row if inner is 1 (`reduces_contiguous`: contiguous memory is reduced), otherwise of the elements
// with one pair of outer and inner indices. A block computes parallel_tile reductions. Its threads are distributed by a
// LoweringConfig (IREE issue 22153), with these levels:
// - along the parallel axis: subgroup, batch, lane, and the vector if this axis is contiguous
// - along the reduced axis, in each step: subgroup, unroll, lane, and the vector if this axis is contiguous
//
// Between two passes, a row is kept in registers or in shared memory, or it is read again from L2 (row_staging
// "reload").
//
// With split > 1 several blocks reduce parts of the same rows. The parts are combined in one of three ways:
// - The last block to finish combines the parts in order and finishes the rows.
// - A second launch of the kernel follows. Each of its blocks combines the states of all parts and normalizes its part.
// - The blocks are a cluster (finish "cluster"). Each block sends its state to all other blocks, waits for their states
//   at an mbarrier, and normalizes its part, which may stay on chip.
//
// Rows whose length is not a multiple of the vector may begin at unaligned addresses. If peeled, such a row is read by
// aligned vectors, starting with the vector that contains its first element. Positions along the row are then counted
// from the start of that vector, which is `shift` elements before the row. Elements of a vector outside the row are
// neither read nor written.
//
// Config: the parameters and attributes of search_spaces/templates/row_reduction/space.py, and T, Out, Op, length,
// inner, parallel_extent, reduces_contiguous, normalizes, has_weight, has_bias, eps.
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/choice.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/kernels/row_operators.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cluster.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/mbarrier.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class Config>
struct RowReduction {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;
  using Op = typename C::Op;
  template <int Pass>
  using State = typename Op::template State<Pass>;
  // Number of words in the states of all passes.
  static constexpr int state_words = State<0>::words + (Op::passes == 2 ? State<1>::words : 0);

  static constexpr int parallel_lanes = 32 / C::lanes_k, parallel_threads = C::subgroups_m * parallel_lanes;
  static constexpr int parallel_vector = C::reduces_contiguous ? 1 : C::vector_x;
  static constexpr int reduced_vector = C::reduces_contiguous ? C::vector_x : 1;
  // Distance of lanes that are adjacent along the reduced axis.
  static constexpr int lane_stride = C::reduces_contiguous ? 1 : parallel_lanes;
  static constexpr int bytes = C::vector_x * int(sizeof(T));
  static constexpr bool peel = C::peel == "yes" && C::vector_x > 1;
  static constexpr bool again = C::finish == "second_launch", in_cluster = C::finish == "cluster";
  static constexpr bool in_registers = C::row_staging == "registers", in_shared = C::row_staging == "shared";
  static constexpr bool whole_steps = C::span % C::chunk == 0 && C::chunk % C::step == 0;
  static constexpr bool whole_tiles = C::parallel_extent % C::parallel_tile == 0;

  static_assert(C::threads == C::subgroups_k * C::subgroups_m * 32 && C::threads <= 1024,
                "rule threads: 32 threads per subgroup, at most 1024 per block");
  static_assert(C::parallel_tile == C::states * parallel_threads && C::states == C::batch * parallel_vector,
                "rule parallel_tile: subgroups x batch x lanes x vector must be the tile");
  static_assert(C::step == C::subgroups_k * C::unroll * C::lanes_k * reduced_vector &&
                    C::steps * static_cast<long long>(C::step) >= C::chunk,
                "rule step: subgroups x unroll x lanes x vector must be the step, and the steps must cover the chunk");
  static_assert(C::vectors == C::steps * C::unroll * C::batch,
                "rule vectors: must be the number of a thread's vectors in all steps");
  static_assert(C::span == C::length + (peel ? C::vector_x - 1 : 0),
                "rule span: the span of a peeled row must include the shift");
  static_assert(C::peel == "yes" ? C::reduces_contiguous
                                 : (C::reduces_contiguous ? C::length : C::inner) % C::vector_x == 0,
                "rule vector_alignment: the vector must divide the contiguous extent, or rows must be peeled");
  static_assert(bytes <= 16, "rule vector_width: a thread moves at most 16 bytes at a time");
  static_assert(!in_shared || bytes >= 4, "rule staging_width: cp.async copies 4, 8 or 16 bytes");
  static_assert((C::split_k - 1) * static_cast<long long>(C::chunk) < C::length,
                "rule split_filled: every split needs elements");
  static_assert(C::split_k == 1 || in_cluster || (Op::passes == 1 && C::row_staging == "reload"),
                "rule split_staging: split rows need a one-pass reduction and reloading");
  static_assert(!in_cluster || (C::normalizes && C::split_k > 1 && C::split_k <= 8),
                "rule cluster_size: 2 to 8 blocks of a cluster share a row that they normalize");
  static_assert(!again || (C::split_k > 1 && C::normalizes), "rule finish: a second launch normalizes split rows");
  static_assert(!C::normalizes || C::reduces_contiguous,
                "rule reduces_contiguous: normalizations must reduce contiguous memory");
  static_assert(C::subgroups_k == 1 || C::cluster_at - C::combine_at >= 4 * state_words * C::subgroups_k * C::parallel_tile,
                "rule combine_bytes: the states of all subgroups and passes must fit");
  static_assert(!in_cluster || C::staging_at - C::cluster_at >= 4 * state_words * C::split_k * C::parallel_tile,
                "rule cluster_bytes: the states of all blocks of a cluster and passes must fit");
  static_assert(!in_shared || C::staging_bytes == C::vectors * C::threads * bytes,
                "rule staging_bytes: the vectors of all threads must fit");

  // The block's rows, if they are kept in registers between two passes.
  struct StagedRows {
    AlignedVector<bytes> vector[in_registers ? C::vectors : 1];
  };

  // Position of this thread.
  int lane_reduced, warp_reduced, lane_parallel, warp_parallel;
  // Range of the block's part of the rows.
  int begin, end;
  int tile;
  // Address of position 0 of row b. The address is not read if the row is outside of the array. Without peeling, a
  // thread's rows are at constant distances, so one address suffices.
  static constexpr long long row_stride = C::reduces_contiguous ? C::length : 1;
  const T* row[peel ? C::batch : 1];
  int shift[C::batch];

  __device__ __forceinline__ RowReduction(const T* x, int outer, int tile_, int begin_, int end_)
      : begin(begin_), end(end_), tile(tile_) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    lane_reduced = C::reduces_contiguous ? lane % C::lanes_k : lane / parallel_lanes;
    lane_parallel = C::reduces_contiguous ? lane / C::lanes_k : lane % parallel_lanes;
    warp_reduced = warp % C::subgroups_k;
    warp_parallel = warp / C::subgroups_k;
#pragma unroll
    for (int b = 0; b < C::batch; ++b) {
      const long long first = static_cast<long long>(outer) * C::length * C::inner + parallel_index(b) * row_stride;
      shift[b] = peel ? int(first % C::vector_x) : 0;
      if (peel || b == 0) row[b] = x + first - shift[b];
    }
  }

  // Index of this thread's b-th element along the parallel axis (the first one of its vector).
  __device__ __forceinline__ int parallel_index(int b) const {
    return tile * C::parallel_tile +
           ((warp_parallel * C::batch + b) * parallel_lanes + lane_parallel) * parallel_vector;
  }
  __device__ __forceinline__ int slot(int j) const {
    return j * parallel_threads + warp_parallel * parallel_lanes + lane_parallel;
  }
  // Position of the first element of vector `u` in step `s`, along the reduced axis.
  __device__ __forceinline__ int reduced_index(int s, int u) const {
    return begin + s * C::step + ((warp_reduced * C::unroll + u) * C::lanes_k + lane_reduced) * reduced_vector;
  }
  __device__ __forceinline__ bool parallel_inside(int b) const {
    return whole_tiles || parallel_index(b) < C::parallel_extent;
  }
  __device__ __forceinline__ bool reduced_inside(int at) const { return whole_steps || at < end; }
  __device__ __forceinline__ bool inside(int b, int at) const { return parallel_inside(b) && reduced_inside(at); }
  // all_inside tests whether all elements of the vector at position `at` belong to the row. element_inside tests
  // element e of the vector.
  __device__ __forceinline__ bool all_inside(int b, int at) const {
    return !peel || (at >= shift[b] && at - shift[b] + C::vector_x <= C::length);
  }
  __device__ __forceinline__ bool element_inside(int b, int at, int e) const {
    const int index = at - shift[b] + e;
    return index >= 0 && index < C::length;
  }
  __device__ __forceinline__ const T* address(int b, int at) const {
    const long long behind = peel ? 0 : b * parallel_lanes * parallel_vector * row_stride;
    return row[peel ? b : 0] + behind + static_cast<long long>(at) * C::inner;
  }
  // Returns the vector at position `at`, with zeros for elements outside the row. `ahead` is the constant distance of
  // the vector from a precomputed address, and becomes an immediate.
  __device__ __forceinline__ AlignedVector<bytes> load(int b, int at, int ahead = 0) const {
    if constexpr (peel) {
      if (!all_inside(b, at)) {
        AlignedVector<bytes> vector = {};
#pragma unroll
        for (int e = 0; e < C::vector_x; ++e) {
          if (!element_inside(b, at, e)) continue;
          put_element<T>(vector, e, load_read_only<load_hint(C::cache_hint_x), int(sizeof(T))>(address(b, at) + e));
        }
        return vector;
      }
    }
    const T* from = address(b, at - ahead) + static_cast<long long>(ahead) * C::inner;
    return load_read_only<load_hint(C::cache_hint_x), bytes>(from);
  }
  __device__ __forceinline__ static unsigned staged_address(unsigned shared, int s, int u, int b) {
    const int vector = ((s * C::unroll + u) * C::batch + b) * C::threads + int(threadIdx.x);
    return shared + C::staging_at + unsigned(vector * bytes);
  }

  // Copies the block's rows to their staging memory. A thread only reads data that it copied itself, so no barrier is
  // needed.
  __device__ __forceinline__ void stage(StagedRows& staged, unsigned shared) const {
    if constexpr (in_registers) {
#pragma unroll
      for (int i = 0; i < C::vectors; ++i) {
        const int u = i / C::batch % C::unroll, b = i % C::batch, at = reduced_index(i / C::batch / C::unroll, u);
        staged.vector[i] = AlignedVector<bytes>{};
        if (inside(b, at)) staged.vector[i] = load(b, at);
      }
    } else if constexpr (in_shared) {
#pragma unroll 1
      for (int s = 0; s < C::steps; ++s) {
#pragma unroll
        for (int i = 0; i < C::unroll * C::batch; ++i) {
          const int u = i / C::batch, b = i % C::batch, at = reduced_index(s, u);
          if (!inside(b, at)) continue;
          if (!all_inside(b, at)) {
            ptx::st_shared(staged_address(shared, s, u, b), load(b, at));
          } else if constexpr (bytes == 16) {
            ptx::cp_async_cg(staged_address(shared, s, u, b), address(b, at), bytes);
          } else {
            ptx::cp_async_ca<bytes>(staged_address(shared, s, u, b), address(b, at), bytes);
          }
        }
      }
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
    }
  }

  // Loads all vectors of a step. Vectors outside of the row are unchanged.
  __device__ __forceinline__ void fetch(AlignedVector<bytes> (&p)[C::unroll][C::batch], const StagedRows& staged,
                                        unsigned shared, int s) const {
#pragma unroll
    for (int u = 0; u < C::unroll; ++u) {
      const int at = reduced_index(s, u);
#pragma unroll
      for (int b = 0; b < C::batch; ++b) {
        if (!inside(b, at)) continue;
        if constexpr (in_registers) {
          p[u][b] = staged.vector[(s * C::unroll + u) * C::batch + b];
        } else if constexpr (in_shared) {
          p[u][b] = ptx::ld_shared<bytes>(staged_address(shared, s, u, b));
        } else {
          p[u][b] = load(b, at, u * C::lanes_k * reduced_vector);
        }
      }
    }
  }

  // Calls use(elements, at, b) for every vector inside the row, in ascending order for each b.
  template <class Use>
  __device__ __forceinline__ void for_each(const StagedRows& staged, unsigned shared, int count, Use use) const {
#pragma unroll(in_registers ? C::steps : 1)
    for (int s = 0; s < count; ++s) {
      AlignedVector<bytes> p[C::unroll][C::batch];
      fetch(p, staged, shared, s);
#pragma unroll
      for (int u = 0; u < C::unroll; ++u) {
        const int at = reduced_index(s, u);
#pragma unroll
        for (int b = 0; b < C::batch; ++b) {
          if (!inside(b, at)) continue;
          float x[C::vector_x];
#pragma unroll
          for (int e = 0; e < C::vector_x; ++e) x[e] = get_element<T>(p[u][b], e);
          use(x, at, b);
        }
      }
    }
  }

  // Computes the states of this thread's rows (or columns) over the elements that the block reduces. All threads of a
  // row get the row's state.
  template <int Pass>
  __device__ __forceinline__ void reduce(State<Pass> (&states)[C::states], const RowScale (&scales)[C::states],
                                         const StagedRows& staged, unsigned shared) const {
    if constexpr (Op::indexed) {
      // If all elements are -infinity, none exceeds the initial maximum. So the initial index is the index of the first
      // element.
      const int at = reduced_index(0, 0);
#pragma unroll
      for (int j = 0; j < C::states; ++j) {
        const int b = j / parallel_vector, first = at - shift[b];
        if (reduced_inside(at)) states[j].index = unsigned(first < 0 ? 0 : first);
      }
    }
    for_each(staged, shared, C::steps, [&](const float(&x)[C::vector_x], int at, int b) {
      if constexpr (C::reduces_contiguous) {
        if (all_inside(b, at)) {
          Op::template add<Pass, C::vector_x>(states[b], x, at - shift[b], scales[b]);
          return;
        }
#pragma unroll
        for (int e = 0; e < C::vector_x; ++e) {
          if (element_inside(b, at, e)) Op::template add<Pass, 1>(states[b], x + e, at - shift[b] + e, scales[b]);
        }
      } else {
#pragma unroll
        for (int e = 0; e < C::vector_x; ++e) {
          Op::template add<Pass, 1>(states[b * C::vector_x + e], x + e, at, scales[b * C::vector_x + e]);
        }
      }
    });
#pragma unroll
    for (int j = 0; j < C::states; ++j) reduce_lanes<C::lanes_k, lane_stride>(states[j]);
    if constexpr (C::subgroups_k > 1) combine_subgroups<Pass>(states, shared);
    if constexpr (in_cluster) combine_cluster<Pass>(states, shared);
  }

  // Each pass has its own mbarrier, at which the states of all blocks of the cluster arrive.
  __device__ __forceinline__ static unsigned cluster_barrier(unsigned shared, int pass) {
    return shared + unsigned(8 * pass);
  }
  template <int Pass>
  __device__ __forceinline__ static void expect_states(unsigned shared) {
    constexpr unsigned bytes = 4u * State<Pass>::words * C::split_k * C::parallel_tile;
    ptx::mbarrier_arrive_expect_tx(cluster_barrier(shared, Pass), bytes);
  }
  // Initialises the barriers and publishes them to the cluster. Before a block sends, it must wait for all blocks of
  // the cluster.
  __device__ __forceinline__ static void join_cluster(unsigned shared) {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int pass = 0; pass < Op::passes; ++pass) ptx::mbarrier_init(cluster_barrier(shared, pass), 1);
      ptx::fence_mbarrier_init();
      expect_states<0>(shared);
      if constexpr (Op::passes == 2) expect_states<1>(shared);
    }
    ptx::cluster_arrive_relaxed();
  }

  // Combines the states of the parts of rows: each block sends its state to all blocks of the cluster, including
  // itself, and merges the received states in the order of the parts. No block exits before it has received the states
  // of all other blocks.
  template <int Pass>
  __device__ __forceinline__ void combine_cluster(State<Pass> (&states)[C::states], unsigned shared) const {
    constexpr int words = State<Pass>::words;
    const unsigned area = shared + C::cluster_at + unsigned(Pass * State<0>::words * C::split_k * C::parallel_tile * 4);
    const auto at = [&](int part, int word, int j) {
      return area + unsigned((part * words + word) * C::parallel_tile + slot(j)) * 4u;
    };
    if constexpr (Pass == 0) ptx::cluster_wait();
    if (warp_reduced == 0) {
      const int rank = int(blockIdx.x) % C::split_k;
#pragma unroll 1
      for (int peer = lane_reduced; peer < C::split_k; peer += C::lanes_k) {
        const unsigned barrier = ptx::address_in(cluster_barrier(shared, Pass), peer);
#pragma unroll
        for (int j = 0; j < C::states; ++j) {
#pragma unroll
          for (int w = 0; w < words; ++w) {
            ptx::st_async(ptx::address_in(at(rank, w, j), peer), states[j].get(w), barrier);
          }
        }
      }
    }
    while (!ptx::mbarrier_try_wait(cluster_barrier(shared, Pass), 0)) {
    }
#pragma unroll
    for (int j = 0; j < C::states; ++j) {
      const auto load = [&](State<Pass>& state, int part) {
#pragma unroll
        for (int w = 0; w < words; ++w) state.set(w, ptx::ld_shared<4>(at(part, w, j)).word[0]);
      };
      states[j] = reduce_parts<C::split_k, C::lanes_k, lane_stride, State<Pass>>(lane_reduced, load);
    }
  }

  template <int Pass>
  __device__ __forceinline__ void combine_subgroups(State<Pass> (&states)[C::states], unsigned shared) const {
    constexpr int words = State<Pass>::words;
    // Each pass has its own memory, so that no thread has to wait until the states of the previous pass have been read.
    const unsigned area =
        shared + C::combine_at + unsigned(Pass * State<0>::words * C::subgroups_k * C::parallel_tile * 4);
    const auto at = [&](int subgroup, int word, int j) {
      return area + unsigned((subgroup * words + word) * C::parallel_tile + slot(j)) * 4u;
    };
    if (lane_reduced == 0) {
#pragma unroll
      for (int j = 0; j < C::states; ++j) {
#pragma unroll
        for (int w = 0; w < words; ++w) ptx::st_shared(at(warp_reduced, w, j), AlignedVector<4>{{states[j].get(w)}});
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int j = 0; j < C::states; ++j) {
      const auto load = [&](State<Pass>& state, int subgroup) {
#pragma unroll
        for (int w = 0; w < words; ++w) state.set(w, ptx::ld_shared<4>(at(subgroup, w, j)).word[0]);
      };
      states[j] = reduce_parts<C::subgroups_k, C::lanes_k, lane_stride, State<Pass>>(lane_reduced, load);
    }
  }

  // Address of word `word` of part `part` of the row of state j.
  __device__ __forceinline__ float* partial(float* partials, long long group, int part, int word, int j) const {
    return partials + ((group * C::split_k + part) * State<0>::words + word) * C::parallel_tile + slot(j);
  }
  __device__ __forceinline__ void store_part(const State<0> (&states)[C::states], float* partials, long long group,
                                             int split) const {
    if (lane_reduced != 0 || warp_reduced != 0) return;
#pragma unroll
    for (int j = 0; j < C::states; ++j) {
#pragma unroll
      for (int w = 0; w < State<0>::words; ++w) {
        ptx::st_global(partial(partials, group, split, w, j), AlignedVector<4>{{states[j].get(w)}});
      }
    }
  }
  // Combines the parts of a split row.
  __device__ __forceinline__ void combine_parts(State<0> (&states)[C::states], float* partials, long long group) const {
#pragma unroll
    for (int j = 0; j < C::states; ++j) {
      const auto load = [&](State<0>& state, int part) {
#pragma unroll
        for (int w = 0; w < State<0>::words; ++w) {
          state.set(w, ptx::ld_global_cg<4>(partial(partials, group, part, w, j)).word[0]);
        }
      };
      states[j] = reduce_parts<C::split_k, C::lanes_k, lane_stride, State<0>>(lane_reduced, load);
    }
  }

  // Stores Count adjacent elements, at most 16 bytes at a time.
  template <int Count>
  __device__ __forceinline__ static void store(Out* to, const float* x) {
    constexpr int widest = 16 / int(sizeof(Out)), width = Count < widest ? Count : widest;
#pragma unroll
    for (int i = 0; i < Count; i += width) {
      autosched::store<store_hint(C::cache_hint_out)>(to + i, pack<Out, width>(x + i));
    }
  }

  // Stores one result for each row or column.
  __device__ __forceinline__ void store_results(const State<0> (&states)[C::states], Out* out) const {
    if (lane_reduced != 0 || warp_reduced != 0) return;
#pragma unroll
    for (int b = 0; b < C::batch; ++b) {
      if (!parallel_inside(b)) continue;
      if constexpr (Op::indexed) {
#pragma unroll
        for (int e = 0; e < parallel_vector; ++e) {
          ptx::st_global(out + parallel_index(b) + e, AlignedVector<4>{{states[b * parallel_vector + e].index}});
        }
      } else {
        float x[parallel_vector];
#pragma unroll
        for (int e = 0; e < parallel_vector; ++e) x[e] = Op::result(states[b * parallel_vector + e], float(C::length));
        store<parallel_vector>(out + parallel_index(b), x);
      }
    }
  }

  // Loads the elements of weight or bias for the vector at position `at`. Their address is unaligned if the row is
  // peeled.
  __device__ __forceinline__ AlignedVector<bytes> of_columns(const T* operand, int b, int at) const {
    if constexpr (peel) {
      AlignedVector<bytes> vector = {};
#pragma unroll
      for (int e = 0; e < C::vector_x; ++e) {
        if (!element_inside(b, at, e)) continue;
        put_element<T>(vector, e, ptx::ld_global_nc<int(sizeof(T))>(operand + (at - shift[b] + e)));
      }
      return vector;
    } else {
      return ptx::ld_global_nc<bytes>(operand + at);
    }
  }

  // Normalizes and stores every element of the rows.
  __device__ __forceinline__ void normalize(const RowScale (&scales)[C::states], const StagedRows& staged,
                                            unsigned shared, const T* weight, const T* bias, Out* out) const {
    // The last block of a split row normalizes the whole row.
    constexpr int all_steps = again || in_cluster ? C::steps : ceil_div(C::span, C::step);
    for_each(staged, shared, all_steps, [&](const float(&x)[C::vector_x], int at, int b) {
      float y[C::vector_x];
#pragma unroll
      for (int e = 0; e < C::vector_x; ++e) y[e] = Op::apply(x[e], scales[b]);
      if constexpr (C::has_weight) {
        const auto w = of_columns(weight, b, at);
#pragma unroll
        for (int e = 0; e < C::vector_x; ++e) y[e] *= get_element<T>(w, e);
      }
      if constexpr (C::has_bias) {
        const auto w = of_columns(bias, b, at);
#pragma unroll
        for (int e = 0; e < C::vector_x; ++e) y[e] += get_element<T>(w, e);
      }
      Out* to = out + static_cast<long long>(parallel_index(b)) * C::length + at - shift[b];
      if (all_inside(b, at)) {
        store<C::vector_x>(to, y);
        return;
      }
#pragma unroll
      for (int e = 0; e < C::vector_x; ++e) {
        if (element_inside(b, at, e)) store<1>(to + e, y + e);
      }
    });
  }

  __device__ __forceinline__ static void run(const T* x, const T* weight, const T* bias, Out* out, float* partials,
                                             unsigned* counters) {
    const int split = int(blockIdx.x) % C::split_k, group = int(blockIdx.x) / C::split_k;
    const int outer = group / C::tiles, tile = group % C::tiles;
    const int begin = split * C::chunk, next = begin + C::chunk;
    RowReduction reduction(x, outer, tile, begin, next < C::span ? next : C::span);
    const unsigned shared = ptx::shared_memory();

    if constexpr (in_cluster) join_cluster(shared);
    StagedRows staged;
    reduction.stage(staged, shared);
    RowScale scales[C::states];
    State<0> states[C::states];
    bool second = false;
    if constexpr (again) second = is_second_launch<C::split_k>(counters + group, shared);
    if (!second) reduction.template reduce<0>(states, scales, staged, shared);
    if constexpr (C::split_k > 1 && !in_cluster) {
      if (!second) {
        reduction.store_part(states, partials, group, split);
        if (again || !is_last_block<C::split_k>(counters + group, shared)) return;
      }
      reduction.combine_parts(states, partials, group);
    }
    if constexpr (!C::normalizes) {
      reduction.store_results(states, out + static_cast<long long>(outer) * C::parallel_extent);
    } else {
#pragma unroll
      for (int j = 0; j < C::states; ++j) Op::template finish<0>(scales[j], states[j], float(C::length), C::eps);
      if constexpr (Op::passes == 2) {
        State<1> second[C::states];
        reduction.template reduce<1>(second, scales, staged, shared);
#pragma unroll
        for (int j = 0; j < C::states; ++j) Op::template finish<1>(scales[j], second[j], float(C::length), C::eps);
      }
      if constexpr (!again && !in_cluster) {
        reduction.begin = 0;
        reduction.end = C::span;
      }
      reduction.normalize(scales, staged, shared, weight, bias, out);
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
