// out[m, n] = sum_k x[m, k] * w[n, k] for few m: w is read once, from memory straight into registers, and everything
// else is arranged around that.
//
// The schedule is a LoweringConfig (search_spaces/layouts/lowering_config.py) over (m, n, k): a block computes
// workgroup_m x workgroup_n of out and walks k in steps of partial_reduction, its tiles along k. Along n and k,
// coordinates are those of its NestedLayout: ((subgroup * batches + batch) * lanes + lane) * thread + element, the thread
// being 1 along n. A sum has no order, so a thread's vector that is wider than a load is put together from parts, which
// lanes take turns at: a warp's load is contiguous. Every thread has all the block's rows of m. Not expanded, each element of a thread's vector has an
// accumulator of its own until the loop ends; expanded, the vector is added up inside the loop, by FMAs one after another
// on one accumulator, or, for several m, by mma.sync, straight from the registers that were loaded.
//
// Config: the parameters and attributes of search_spaces/templates/matvec/space.py, and m, n, k, T (of x and w), Out.
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/choice.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/reduce.cuh>
#include <autosched/intrinsics/mma_sync.cuh>
#include <autosched/ptx/barrier.cuh>
#include <autosched/ptx/cp_async.cuh>
#include <autosched/ptx/global_memory.cuh>
#include <autosched/ptx/shared_memory.cuh>

namespace autosched {

template <class Config>
struct Matvec {
  using C = Config;
  using T = typename C::T;
  using Out = typename C::Out;

  using Mma = MmaSync<T>;
  static constexpr bool mma = C::intrinsic != "fma";
  static constexpr bool expanded = C::expand_dims == "yes";
  static constexpr bool x_shared = C::x_source == "shared";

  static_assert(C::lane_basis_n * C::lane_basis_k == 32, "rule lane_basis: lanes along n and k make a warp");
  static_assert(C::workgroup_n == C::subgroup_basis_n * C::lane_basis_n * C::rows_n,
                "rule distribution_n: subgroups x lanes x rows make up workgroup_n");
  static_assert(C::partial_reduction == C::subgroup_basis_k * C::lane_basis_k * C::thread * C::batches_k,
                "rule distribution_k: subgroups x lanes x thread x batches make up partial_reduction");
  static_assert(C::threads == 32 * C::subgroup_basis_n * C::subgroup_basis_k && C::threads <= 1024,
                "rule threads: 32 of each subgroup, at most 1024 a block");
  static_assert(C::k % C::access == 0 && C::thread % C::access == 0 && C::access * sizeof(T) <= 16,
                "rule access: a load is aligned, inside the thread's vector, and at most 16 bytes");
  static_assert(!mma || (C::lane_basis_n == 8 && C::workgroup_n % (C::subgroup_basis_n * Mma::m) == 0),
                "rule fragment_n: a fragment has 16 rows of w, two for each of 8 lanes");
  static_assert(!mma || (C::lane_basis_k == 4 && C::thread % 4 == 0 && expanded),
                "rule fragment_k: four lanes have 4 elements each of a fragment's k, added up by the instruction");
  static_assert(C::tiles_m * C::workgroup_m >= C::m && C::tiles_n * C::workgroup_n >= C::n &&
                    C::tiles_k * C::partial_reduction >= C::k && C::rows_x * (mma ? Mma::n : 1) >= C::workgroup_m,
                "rule tiles: the tiles must cover the matrices");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a step of k, and together they have all of them");

  // Shared memory: the block's rows of x over the k of its split, zero behind the end of k; then the sums of a tile,
  // one for each subgroup along k.
  static constexpr int results = C::workgroup_m * C::workgroup_n;
  static constexpr bool through_shared = C::sums_bytes > 0;
  static_assert(!x_shared || (C::slab_bytes >= C::workgroup_m * C::line_bytes &&
                              C::line_bytes >= C::split_elements * int(sizeof(T))),
                "rule shared_memory: the rows of x must fit into their slab");
  static_assert(through_shared ? C::sums_bytes == results * C::subgroup_basis_k * int(sizeof(float))
                               : C::subgroup_basis_k == 1 && C::split_k == 1,
                "rule shared_memory: sums of several subgroups or splits meet in shared memory");
  static_assert(C::shared_bytes == C::slab_bytes + C::sums_bytes,
                "rule shared_memory: x and the sums fill the block's shared memory");

  // Elements of k that the lanes of a warp have of a batch, and from one part of a lane's vector to its next.
  static constexpr int batch_elements = C::lane_basis_k * C::thread, part_elements = C::lane_basis_k * C::access;

  // A thread's elements of one row for a batch, loaded Access at a time.
  template <int Access>
  struct Vector {
    AlignedVector<Access * int(sizeof(T))> part[C::thread / Access];

    __device__ __forceinline__ float operator[](int e) const { return get_element<T>(part[e / Access], e % Access); }
    // Elements 2 w and 2 w + 1, as a fragment has them.
    __device__ __forceinline__ unsigned word(int w) const {
      if constexpr (Access == 1) {
        return unsigned(part[2 * w].half) | unsigned(part[2 * w + 1].half) << 16;
      } else {
        return part[2 * w / Access].word[2 * w % Access / 2];
      }
    }
    // `at` is the address of the first part, which is element `k` of its row. Guarded: what lies behind the end of k is
    // zero and not read.
    template <LoadHint Hint, bool Guarded>
    __device__ __forceinline__ void load_global(const T* at, int k) {
      static_assert(Access == C::access, "parts in global memory are those that lanes take turns at");
#pragma unroll
      for (int p = 0; p < C::thread / Access; ++p) {
        if constexpr (Guarded) {
          part[p] = {};
          if (k + p * part_elements >= C::k) continue;
        }
        part[p] = load_read_only<Hint, Access * int(sizeof(T))>(at + p * part_elements);
      }
    }
    __device__ __forceinline__ void load_shared(unsigned address) {
#pragma unroll
      for (int p = 0; p < C::thread / Access; ++p) {
        part[p] = ptx::ld_shared<Access * int(sizeof(T))>(address + unsigned(p * Access * int(sizeof(T))));
      }
    }
  };
  using VectorOfW = Vector<C::access>;
  static constexpr int widest = 16 / int(sizeof(T)), shared_access = C::thread < widest ? C::thread : widest;
  using VectorOfX = Vector<x_shared ? shared_access : C::access>;

  // Where this thread is in Count rows of global memory. Rows that none of the block's tiles repeats are Stride rows
  // apart: one address, and constants from it to the others.
  template <int Count, bool Even, int Stride>
  struct Rows {
    static constexpr int addresses = Even ? 1 : Count;
    const T* at[addresses];

    __device__ __forceinline__ const T* operator[](int i) const {
      return Even ? at[0] + static_cast<long long>(i) * Stride * C::k : at[Even ? 0 : i];
    }
    __device__ __forceinline__ void advance(int elements) {
#pragma unroll
      for (int i = 0; i < addresses; ++i) at[i] += elements;
    }
  };
  using RowsOfW = Rows<C::rows_n, C::n % C::workgroup_n == 0, C::lane_basis_n>;

  // Where this thread is in its rows of x: in the slab in shared memory, or in global memory and read through L1.
  static constexpr int columns = mma ? Mma::n : 1;  // rows of x that the lanes of a warp read together
  struct RowsOfX {
    static constexpr bool even = C::workgroup_m % columns == 0;
    Rows<C::rows_x, even && C::m % C::workgroup_m == 0, columns> global;
    static constexpr int slabs = even ? 1 : C::rows_x;
    unsigned slab[slabs];

    template <bool Guarded>
    __device__ __forceinline__ VectorOfX load(int i, int ahead, int k) const {
      VectorOfX x;
      if constexpr (x_shared) {
        const unsigned row = even ? slab[0] + unsigned(i * columns * C::line_bytes) : slab[even ? 0 : i];
        x.load_shared(row + unsigned(ahead * int(sizeof(T))));
      } else {
        x.template load_global<LoadHint::none, Guarded>(global[i] + ahead, k + ahead);
      }
      return x;
    }
    __device__ __forceinline__ void advance(int elements) {
      if constexpr (x_shared) {
#pragma unroll
        for (int i = 0; i < slabs; ++i) slab[i] += unsigned(elements * int(sizeof(T)));
      } else {
        global.advance(elements);
      }
    }
  };

  // What a thread carries around the loop. `add` multiplies its vectors of w of batch b by those of x, `ahead`
  // elements on; `finish` calls use(i, j, sum) in one thread for each row i of the block's x and j of that thread's w.
  struct SumsOfFma {
    float x[C::rows_x][C::rows_n][C::batches_k][C::carried] = {};

    template <bool Guarded>
    __device__ __forceinline__ void add(const VectorOfW (&w)[C::rows_n], const RowsOfX& rows, int b, int ahead,
                                        int k) {
#pragma unroll
      for (int i = 0; i < C::rows_x; ++i) {
        const VectorOfX v = rows.template load<Guarded>(i, ahead, k);
#pragma unroll
        for (int j = 0; j < C::rows_n; ++j) {
#pragma unroll
          for (int e = 0; e < C::thread; ++e) {
            float& sum = x[i][j][b][expanded ? 0 : e];
            sum = fmaf(v[e], w[j][e], sum);
          }
        }
      }
    }
    // Lanes along k have a part of each sum.
    template <class Use>
    __device__ __forceinline__ void finish(int lane, Use use) const {
#pragma unroll
      for (int i = 0; i < C::rows_x; ++i) {
#pragma unroll
        for (int j = 0; j < C::rows_n; ++j) {
          SumState state;
#pragma unroll
          for (int b = 0; b < C::batches_k; ++b) {
#pragma unroll
            for (int e = 0; e < C::carried; ++e) state.sum += x[i][j][b][e];
          }
          reduce_lanes<C::lane_basis_k, 1>(state);
          if (lane % C::lane_basis_k == 0) use(i, j, state.sum);
        }
      }
    }
  };

  // Rows of w are the rows of a fragment's A, rows of x the columns of its B. Lanes hold k in fragments as it suits
  // their loads: a sum has no order, so A and B need only agree. Lanes along k share one sum of the instruction, and
  // each has some columns of it.
  struct SumsOfMma {
    typename Mma::FragmentC c[C::rows_x][C::rows_n / 2][C::batches_k] = {};

    template <bool Guarded>
    __device__ __forceinline__ void add(const VectorOfW (&w)[C::rows_n], const RowsOfX& rows, int b, int ahead,
                                        int k) {
#pragma unroll
      for (int i = 0; i < C::rows_x; ++i) {
        const VectorOfX v = rows.template load<Guarded>(i, ahead, k);
#pragma unroll
        for (int j = 0; j < C::rows_n; j += 2) {
#pragma unroll
          for (int word = 0; word < C::thread / 2; word += 2) {
            const typename Mma::FragmentA left = {
                {w[j].word(word), w[j + 1].word(word), w[j].word(word + 1), w[j + 1].word(word + 1)}};
            const typename Mma::FragmentB right = {{v.word(word), v.word(word + 1)}};
            Mma::template multiply<void, void>(c[i][j / 2][b], left, right);
          }
        }
      }
    }
    template <class Use>
    __device__ __forceinline__ void finish(int lane, Use use) const {
#pragma unroll
      for (int i = 0; i < C::rows_x; ++i) {
#pragma unroll
        for (int r = 0; r < Mma::c_registers; ++r) {
          const int row = i * Mma::n + Mma::c_col(lane, r / Mma::c_run) + r % Mma::c_run;
          if (C::workgroup_m % Mma::n != 0 && row >= C::workgroup_m) continue;
#pragma unroll
          for (int j = 0; j < C::rows_n; j += 2) {
            float sum = 0.0f;
#pragma unroll
            for (int b = 0; b < C::batches_k; ++b) sum += c[i][j / 2][b].x[r];
            use(row, j + r / Mma::c_run, sum);
          }
        }
      }
    }
  };
  using Sums = conditional<mma, SumsOfMma, SumsOfFma>;
  static_assert(sizeof(Sums) == C::accumulators * sizeof(float),
                "rule accumulators: a thread carries as many as the LoweringConfig says");

  // Steps of the reduction from where this thread is, its element k: all of w is asked for before any of it is used.
  template <int Steps, bool Guarded>
  __device__ static __forceinline__ void multiply(Sums& sums, RowsOfX& x_rows, RowsOfW& w_rows, int k) {
    VectorOfW w[Steps][C::batches_k][C::rows_n];
    const auto ahead = [](int s, int b) { return s * C::partial_reduction + b * batch_elements; };
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int b = 0; b < C::batches_k; ++b) {
#pragma unroll
        for (int j = 0; j < C::rows_n; ++j) {
          w[s][b][j].template load_global<load_hint(C::w_cache), Guarded>(w_rows[j] + ahead(s, b), k + ahead(s, b));
        }
      }
    }
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int b = 0; b < C::batches_k; ++b) sums.template add<Guarded>(w[s][b], x_rows, b, ahead(s, b), k);
    }
    w_rows.advance(Steps * C::partial_reduction);
    x_rows.advance(Steps * C::partial_reduction);
  }

  // The block's rows of x into shared memory, each thread's vectors in one piece, seen by all threads when this returns.
  __device__ static __forceinline__ void copy_x(const T* x, unsigned slab, int m0, int k0) {
    constexpr int bytes = C::access * int(sizeof(T)), vectors = C::split_elements / C::access;
#pragma unroll 1
    for (int at = int(threadIdx.x); at < C::workgroup_m * vectors; at += C::threads) {
      const int row = at / vectors, k = k0 + at % vectors * C::access;
      const bool inside = k < C::k;
      const T* from = x + (inside ? row_of_x(m0 + row) * C::k + k : 0);  // not read when nothing is copied
      // This is part `part` of lane `lane` of a batch.
      constexpr int parts = C::thread / C::access;
      const int lane = at % vectors % C::lane_basis_k, turn = at % vectors / C::lane_basis_k;
      const int place = (turn / parts * C::lane_basis_k + lane) * parts + turn % parts;
      const unsigned to = slab + unsigned(row * C::line_bytes + place * bytes);
      if constexpr (bytes == 16) {
        ptx::cp_async_cg(to, from, inside ? bytes : 0);
      } else if constexpr (bytes >= 4) {
        ptx::cp_async_ca<bytes>(to, from, inside ? bytes : 0);
      } else {
        AlignedVector<bytes> held = {};
        if (inside) held = ptx::ld_global_nc<bytes>(from);
        ptx::st_shared(to, held);
      }
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
  }

  // Rows behind the end repeat the last one, so that no load needs a check; they are never stored.
  __device__ static __forceinline__ long long row_of_x(int m) {
    return C::m % C::workgroup_m == 0 || m < C::m ? m : C::m - 1;
  }
  __device__ static __forceinline__ long long row_of_w(int n) {
    return C::n % C::workgroup_n == 0 || n < C::n ? n : C::n - 1;
  }

  __device__ static __forceinline__ void store(Out* out, int m, int n, float value) {
    if (C::m % C::workgroup_m != 0 && m >= C::m) return;
    if (C::n % C::workgroup_n != 0 && n >= C::n) return;
    ptx::st_global(out + static_cast<long long>(m) * C::n + n, pack<Out, 1>(&value));
  }

  // The sums of a tile's subgroups, from shared memory to out, or, where k is split, to the sums of the splits, which
  // the last block of the tile adds in their order: the result does not depend on which block comes last.
  __device__ static __forceinline__ void combine(unsigned sums, Out* out, float* partials, unsigned* counters, int tile,
                                                 int split, int m0, int n0) {
    ptx::barrier_sync();
#pragma unroll 1
    for (int at = int(threadIdx.x); at < results; at += C::threads) {
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < C::subgroup_basis_k; ++s) {
        sum += ptx::float_of(ptx::ld_shared<4>(sums + unsigned(s * results + at) * 4u).word[0]);
      }
      if constexpr (C::split_k == 1) {
        store(out, m0 + at / C::workgroup_n, n0 + at % C::workgroup_n, sum);
      } else {
        float* to = partials + static_cast<long long>(tile * C::split_k + split) * results + at;
        ptx::st_global(to, AlignedVector<4>{{ptx::bits_of(sum)}});
      }
    }
    if constexpr (C::split_k > 1) {
      if (!is_last_block<C::split_k>(counters + tile, sums)) return;
      const float* all = partials + static_cast<long long>(tile) * C::split_k * results;
#pragma unroll 1
      for (int at = int(threadIdx.x); at < results; at += C::threads) {
        float sum = 0.0f;
#pragma unroll 4
        for (int s = 0; s < C::split_k; ++s) {
          sum += ptx::float_of(ptx::ld_global_cg<4>(all + s * results + at).word[0]);
        }
        store(out, m0 + at / C::workgroup_n, n0 + at % C::workgroup_n, sum);
      }
    }
  }

  __device__ static __forceinline__ void run(const T* x, const T* w, Out* out, float* partials, unsigned* counters) {
    // Blocks that read the same rows of w are neighbours.
    const int tile = int(blockIdx.x) % (C::tiles_m * C::tiles_n), split = int(blockIdx.x) / (C::tiles_m * C::tiles_n);
    const int m0 = tile % C::tiles_m * C::workgroup_m, n0 = tile / C::tiles_m * C::workgroup_n;
    const int first = split * C::tiles_of_split, k0 = first * C::partial_reduction;

    // Subgroups and lanes are numbered with k fastest.
    const int subgroup = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int subgroup_n = subgroup / C::subgroup_basis_k, subgroup_k = subgroup % C::subgroup_basis_k;
    const int lane_n = lane / C::lane_basis_k, lane_k = lane % C::lane_basis_k;
    const int thread_n = subgroup_n * C::rows_n * C::lane_basis_n + lane_n;
    const int batch_k = subgroup_k * C::batches_k * batch_elements;
    const int thread_k = batch_k + lane_k * C::access;  // of its first part

    RowsOfX x_rows;
    if constexpr (x_shared) copy_x(x, ptx::shared_memory(), m0, k0);
#pragma unroll
    for (int i = 0; i < (x_shared ? RowsOfX::slabs : decltype(x_rows.global)::addresses); ++i) {
      // Columns of a fragment that the tile lacks repeat its last row, and are dropped with the sums.
      int row = mma ? i * Mma::n + lane_n : i;
      if (row >= C::workgroup_m) row = C::workgroup_m - 1;
      if constexpr (x_shared) {
        const int element = batch_k + lane_k * C::thread;
        x_rows.slab[i] = ptx::shared_memory() + unsigned(row * C::line_bytes + element * int(sizeof(T)));
      } else {
        x_rows.global.at[i] = x + row_of_x(m0 + row) * C::k + k0 + thread_k;
      }
    }
    RowsOfW w_rows;
#pragma unroll
    for (int j = 0; j < RowsOfW::addresses; ++j) {
      w_rows.at[j] = w + row_of_w(n0 + thread_n + j * C::lane_basis_n) * C::k + k0 + thread_k;
    }

    Sums sums;
    const int last = first + C::tiles_of_split < C::tiles_k ? first + C::tiles_of_split : C::tiles_k;
    constexpr int whole_steps = C::k / C::partial_reduction;  // without a partial last one
    const int whole = last < whole_steps ? last : whole_steps;
    int step = first;
#pragma unroll 1
    for (; step + C::k_unroll <= whole; step += C::k_unroll) {
      multiply<C::k_unroll, false>(sums, x_rows, w_rows, step * C::partial_reduction + thread_k);
    }
    if constexpr (C::k_unroll > 1) {
#pragma unroll 1
      for (; step < whole; ++step) {
        multiply<1, false>(sums, x_rows, w_rows, step * C::partial_reduction + thread_k);
      }
    }
    if constexpr (C::k % C::partial_reduction != 0) {
      if (step < last) multiply<1, true>(sums, x_rows, w_rows, step * C::partial_reduction + thread_k);
    }

    const unsigned shared_sums = ptx::shared_memory() + unsigned(C::slab_bytes);
    sums.finish(lane, [&](int i, int j, float sum) {
      const int n = thread_n + j * C::lane_basis_n;
      if constexpr (through_shared) {
        const int at = (subgroup_k * C::workgroup_m + i) * C::workgroup_n + n;
        ptx::st_shared(shared_sums + unsigned(at) * 4u, AlignedVector<4>{{ptx::bits_of(sum)}});
      } else {
        store(out, m0 + i, n0 + n, sum);
      }
    });
    if constexpr (through_shared) combine(shared_sums, out, partials, counters, tile, split, m0, n0);
  }
};

template <class Config>
__device__ __forceinline__ void matvec(const typename Config::T* x, const typename Config::T* w,
                                       typename Config::Out* out, float* partials, unsigned* counters) {
  Matvec<Config>::run(x, w, out, partials, counters);
}

}  // namespace autosched
