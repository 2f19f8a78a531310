// out[m, n] = sum_k x[m, k] * w[n, k] for small m. The design aims at reading w once, from memory directly to
// registers.
//
// The schedule is a LoweringConfig (search_spaces/layouts/lowering_config.py) over (m, n, k). A block computes tile_m x
// tile_n of out, and advances along k in steps of tile_k. Along n and k, coordinates are those of the config's
// NestedLayout: ((subgroup * batches + batch) * lanes + lane) * thread + element, where `thread` is the number of
// elements per thread (1 along n). If a thread's vector is wider than a load, it consists of parts that alternate
// between lanes, so that each load of a warp is contiguous. This is possible because additions may be in any order.
//
// Every thread computes all m rows of the block. If expand_dims is "no", each element of a thread's vector has its own
// accumulator until the loop ends. If expand_dims is "yes", the vector is summed inside the loop: by successive FMAs on
// one accumulator, or (for several m) by mma.sync, which reads the loaded registers directly.
//
// If k is not a multiple of a load's elements, rows may begin at unaligned addresses. Such torn rows are read by
// aligned loads, starting with the load that contains the row's first element. Positions along k count from the start
// of that load, `shift` elements before the row. A block only processes rows with the same shift (every row_classes-th
// row of w), and it shifts x by the same amount. So x is realigned once for all these rows. Elements of a vector that
// are outside the row are set to zero instead of being read.
//
// Config: the parameters and attributes of search_spaces/templates/matvec/space.py, and m, n, k, T (of x and w), Out.
#pragma once
#include <autosched/common/cache_hints.cuh>
#include <autosched/common/choice.cuh>
#include <autosched/common/last_block.cuh>
#include <autosched/common/numeric.cuh>
#include <autosched/common/realign.cuh>
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
  static constexpr bool x_shared = C::x_operand_source == "shared";

  // Rows begin at multiples of `unit` elements. Torn rows may begin at unaligned addresses. All torn rows of w that a
  // block reads have the same misalignment.
  static constexpr bool torn = C::k % C::access != 0;
  static constexpr int unit = torn ? C::k & -C::k : C::access;

  static_assert(C::lanes_n * C::lanes_k == 32, "rule lanes: lanes along n and k must be a warp");
  static_assert(C::tile_n == C::subgroups_n * C::lanes_n * C::rows_n,
                "rule distribution_n: subgroups x lanes x rows must be tile_n");
  static_assert(C::tile_k == C::subgroups_k * C::lanes_k * C::vector_w * C::batches_k,
                "rule distribution_k: subgroups x lanes x vectors x batches must be tile_k");
  static_assert(C::threads == 32 * C::subgroups_n * C::subgroups_k && C::threads <= 1024,
                "rule threads: 32 threads per subgroup, at most 1024 per block");
  static_assert(C::vector_w % C::access == 0 && C::access * sizeof(T) <= 16,
                "rule access: a load must be inside the thread's vector, and at most 16 bytes");
  static_assert(!mma || (C::lanes_n == 8 && C::tile_n % (C::subgroups_n * Mma::m) == 0),
                "rule fragment_n: a fragment has 16 rows of w, two for each of 8 lanes");
  static_assert(!mma || (C::lanes_k == 4 && C::vector_w % 4 == 0 && expanded),
                "rule fragment_k: four lanes have 4 elements each of a fragment's k, added up by the instruction");
  static_assert(C::tiles_m * C::tile_m >= C::m && C::tiles_n * C::tile_n * C::row_classes >= C::n &&
                    C::tiles_k * C::tile_k >= C::k + (torn ? C::access - unit : 0) &&
                    C::rows_x * (mma ? Mma::n : 1) >= C::tile_m,
                "rule tiles: the tiles must cover the matrices");
  static_assert(C::tiles_of_split * C::split_k >= C::tiles_k && (C::split_k - 1) * C::tiles_of_split < C::tiles_k,
                "rule split_k: every split needs a step of k, and the splits must cover all steps");

  // Shared memory begins with a slab: the block's rows of x, in the k range of the block's split, with zeros after the
  // end of k. The slab is followed by the sums of a tile, once for each subgroup along k.
  static constexpr int results = C::tile_m * C::tile_n;
  static constexpr bool through_shared = C::sums_bytes > 0;
  static_assert(!x_shared || (C::slab_bytes >= C::tile_m * C::line_bytes &&
                              C::line_bytes >= C::split_elements * int(sizeof(T))),
                "rule shared_memory: the rows of x must fit into their slab");
  static_assert(through_shared ? C::sums_bytes == results * C::subgroups_k * int(sizeof(float))
                               : C::subgroups_k == 1 && C::split_k == 1,
                "rule shared_memory: sums of several subgroups or splits need shared memory");
  static_assert(C::shared_bytes == C::slab_bytes + C::sums_bytes,
                "rule shared_memory: must be the bytes of x and the sums");

  static_assert(C::row_classes >= C::n || static_cast<long long>(C::row_classes) * C::k % C::access == 0,
                "rule row_classes: every row_classes-th row of w must have the same misalignment");

  // batch_elements: number of elements along k that the lanes of a warp have in a batch. part_elements: distance
  // between the parts of a lane's vector, in elements along k.
  static constexpr int batch_elements = C::lanes_k * C::vector_w, part_elements = C::lanes_k * C::access;

  // Returns the elements [k, k + access) of the row whose element k is at `from`, with zeros outside the row.
  template <LoadHint Hint>
  __device__ static __forceinline__ AlignedVector<C::access * int(sizeof(T))> load_elements(const T* from, int k) {
    AlignedVector<C::access * int(sizeof(T))> vector = {};
#pragma unroll
    for (int e = 0; e < C::access; ++e) {
      if (k + e < 0 || k + e >= C::k) continue;
      put_element<T>(vector, e, load_read_only<Hint, int(sizeof(T))>(from + e));
    }
    return vector;
  }

  // A thread's elements of a row for one batch, which are loaded in parts of `Access` elements.
  template <int Access, int Count = C::vector_w>
  struct Vector {
    AlignedVector<Access * int(sizeof(T))> part[Count / Access];

    __device__ __forceinline__ float operator[](int e) const { return get_element<T>(part[e / Access], e % Access); }
    // Returns elements 2 w and 2 w + 1 packed as a register of a fragment.
    __device__ __forceinline__ unsigned word(int w) const {
      return part[2 * w / Access].word[2 * w % Access / 2];
    }
    // The first part begins with element `k` of the row. `at` is the address of this element or, if Realigned, an
    // address `shift` elements before it. If Guarded, elements before the row and after the end of k are set to zero
    // instead of being read.
    template <LoadHint Hint, bool Guarded, bool Realigned>
    __device__ __forceinline__ void load_global(const T* at, int shift, int k) {
      static_assert(Access == C::access, "in global memory, the parts of a vector alternate between lanes");
      constexpr int bytes = Access * int(sizeof(T));
#pragma unroll
      for (int p = 0; p < Count / Access; ++p) {
        const T* from = at + p * part_elements;
        if constexpr (Guarded) {
          const int first = k + p * part_elements;
          part[p] = {};
          if (first >= C::k) continue;
          if (torn && (first < 0 || first + (Realigned ? 2 : 1) * Access > C::k)) {
            if constexpr (torn) part[p] = load_elements<Hint>(from + (Realigned ? shift : 0), first);
            continue;
          }
        }
        if constexpr (Realigned) {
          const auto left = load_read_only<Hint, bytes>(from), right = load_read_only<Hint, bytes>(from + Access);
          part[p] = realign<unit * int(sizeof(T))>(left, right, shift * int(sizeof(T)));
        } else {
          part[p] = load_read_only<Hint, bytes>(from);
        }
      }
    }
    __device__ __forceinline__ void load_shared(unsigned address) {
#pragma unroll
      for (int p = 0; p < Count / Access; ++p) {
        part[p] = ptx::ld_shared<Access * int(sizeof(T))>(address + unsigned(p * Access * int(sizeof(T))));
      }
    }
  };
  using VectorOfW = Vector<C::access>;
  static constexpr int widest = 16 / int(sizeof(T)), shared_access = C::vector_w < widest ? C::vector_w : widest;
  using VectorOfX = Vector<x_shared ? shared_access : C::access>;

  // This thread's position in Count rows in global memory.
  // - Even: no tile of the block repeats rows. Then the thread's successive rows are always Stride rows of the array
  //   apart, and every `period`-th of them has the same misalignment. So `period` addresses and constant distances
  //   suffice.
  // - Realigned: vectors of the rows may begin at unaligned addresses.
  template <int Count, bool Even, int Stride, bool Realigned>
  struct Rows {
    static constexpr int period = Realigned && C::access > unit * Stride ? C::access / (unit * Stride) : 1;
    static constexpr int addresses = Even && period < Count ? period : Count;
    const T* at[addresses];
    int shift[addresses];  // distance from the start of the row to this thread's first element

    // Row i begins at `begins`, and this thread's first element is `elements` elements further.
    __device__ __forceinline__ void set_row(int i, const T* all, long long begins, int elements) {
      const int behind = Realigned ? int((begins + elements) & (C::access - 1)) : 0;
      shift[i] = behind;
      at[i] = all + begins + elements - behind;
    }
    template <LoadHint Hint, bool Guarded, class Vector>
    __device__ __forceinline__ void load(Vector& vector, int i, int ahead, int k) const {
      const int near = Even ? i % period : i;
      const T* from = at[near] + static_cast<long long>(i - near) * Stride * C::k;
      vector.template load_global<Hint, Guarded, Realigned>(from + ahead, shift[near], k + ahead);
    }
    __device__ __forceinline__ void advance(int elements) {
#pragma unroll
      for (int i = 0; i < addresses; ++i) at[i] += elements;
    }
  };
  static constexpr bool whole_tiles_n = C::n % (static_cast<long long>(C::tile_n) * C::row_classes) == 0;
  using RowsOfW = Rows<C::rows_n, whole_tiles_n, C::lanes_n * C::row_classes, false>;

  // This thread's position in its rows of x, which are in shared memory (a copy of a slab of x) or in global memory
  // (read through L1).
  static constexpr int columns = mma ? Mma::n : 1;  // number of rows of x that the lanes of a warp read together
  struct RowsOfX {
    static constexpr bool even = C::tile_m % columns == 0;
    Rows<C::rows_x, even && C::m % C::tile_m == 0, columns, torn> global;
    static constexpr int slabs = even ? 1 : C::rows_x;
    unsigned slab[slabs];

    template <bool Guarded>
    __device__ __forceinline__ VectorOfX load(int i, int ahead, int k) const {
      VectorOfX x;
      if constexpr (x_shared) {
        const unsigned row = even ? slab[0] + unsigned(i * columns * C::line_bytes) : slab[even ? 0 : i];
        x.load_shared(row + unsigned(ahead * int(sizeof(T))));
      } else {
        global.template load<LoadHint::none, Guarded>(x, i, ahead, k);
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

  // Loop-carried sums of a thread. `add` multiplies the thread's vectors of w in batch b by the vectors of x, which are
  // `ahead` elements after the thread's position. `finish` calls use(i, j, sum) in one thread for each row i of the
  // block's x and each row j of this thread's w.
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
          for (int e = 0; e < C::vector_w; ++e) {
            float& sum = x[i][j][b][expanded ? 0 : e];
            sum = fmaf(v[e], w[j][e], sum);
          }
        }
      }
    }
    // Each lane along k has a partial sum of every result.
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
          reduce_lanes<C::lanes_k, 1>(state);
          if (lane % C::lanes_k == 0) use(i, j, state.sum);
        }
      }
    }
  };

  // Sums by mma.sync. Rows of w are rows of the fragment A, and rows of x are columns of B. Values keep the order along
  // k in which they were loaded. This is correct because A and B have the same order. The instruction adds up the
  // elements of all lanes along k, and each lane then has the sums of some columns.
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
          for (int word = 0; word < C::vector_w / 2; word += 2) {
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
          if (C::tile_m % Mma::n != 0 && row >= C::tile_m) continue;
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
                "rule accumulators: must be the number of the LoweringConfig");

  // Computes `Steps` steps of the reduction. This thread's first element is element k of its rows. All loads of w are
  // issued before any loaded value is used.
  template <int Steps, bool Guarded>
  __device__ static __forceinline__ void multiply(Sums& sums, RowsOfX& x_rows, RowsOfW& w_rows, int k) {
    VectorOfW w[Steps][C::batches_k][C::rows_n];
    const auto ahead = [](int s, int b) { return s * C::tile_k + b * batch_elements; };
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int b = 0; b < C::batches_k; ++b) {
#pragma unroll
        for (int j = 0; j < C::rows_n; ++j) {
          w_rows.template load<load_hint(C::cache_hint_w), Guarded>(w[s][b][j], j, ahead(s, b), k);
        }
      }
    }
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
#pragma unroll
      for (int b = 0; b < C::batches_k; ++b) sums.template add<Guarded>(w[s][b], x_rows, b, ahead(s, b), k);
    }
    w_rows.advance(Steps * C::tile_k);
    x_rows.advance(Steps * C::tile_k);
  }

  // Offset in bytes, within the slab, of the part of a row of x that contains `element`. The slab stores each thread's
  // vectors contiguously.
  __device__ static __forceinline__ unsigned slab_offset(int row, int element) {
    // The element is in part `part` of lane `lane` of a batch.
    constexpr int parts = C::vector_w / C::access;
    const int vector = element / C::access, lane = vector % C::lanes_k, turn = vector / C::lanes_k;
    const int position = (turn / parts * C::lanes_k + lane) * parts + turn % parts;
    return unsigned(row * C::line_bytes + position * C::access * int(sizeof(T)));
  }

  // Copies the block's rows of x to shared memory, with zeros outside the row. All threads may read them afterwards. k0
  // is the first element in the slab.
  __device__ static __forceinline__ void copy_x(const T* x, unsigned slab, int m0, int k0) {
    constexpr int bytes = C::access * int(sizeof(T)), vectors = C::split_elements / C::access;
#pragma unroll 1
    for (int at = int(threadIdx.x); at < C::tile_m * vectors; at += C::threads) {
      const int row = at / vectors, element = at % vectors * C::access, k = k0 + element;
      const unsigned to = slab + slab_offset(row, element);
      if constexpr (torn) {
        Rows<1, true, 1, true> from;
        from.set_row(0, x, row_of_x(m0 + row) * C::k, k);
        Vector<C::access, C::access> held;
        from.template load<LoadHint::none, true>(held, 0, 0, k);
        ptx::st_shared(to, held.part[0]);
      } else {
        const bool inside = k < C::k;
        const T* from = x + (inside ? row_of_x(m0 + row) * C::k + k : 0);  // not read if nothing is copied
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
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
  }

  // Rows beyond the end repeat the last row, so that loads need no check. Their results are not stored.
  __device__ static __forceinline__ long long row_of_x(int m) {
    return C::m % C::tile_m == 0 || m < C::m ? m : C::m - 1;
  }
  __device__ static __forceinline__ long long row_of_w(int n) {
    // Rows beyond the end repeat the last row of the same class, because it has the same misalignment.
    return whole_tiles_n || n < C::n ? n : C::n - 1 - (C::n - 1 - n % C::row_classes) % C::row_classes;
  }

  __device__ static __forceinline__ void store(Out* out, int m, int n, float value) {
    if (C::m % C::tile_m != 0 && m >= C::m) return;
    if (!whole_tiles_n && n >= C::n) return;
    ptx::st_global(out + static_cast<long long>(m) * C::n + n, pack<Out, 1>(&value));
  }

  // Adds the sums of a tile's subgroups, which are in shared memory, and stores the results to out. If k is split, the
  // results are stored to the workspace of the splits instead, and the last block of a tile adds the splits in order,
  // so that the result does not depend on which block is last.
  __device__ static __forceinline__ void combine(unsigned sums, Out* out, float* partials, unsigned* counters, int tile,
                                                 int split, int m0, int n0) {
    ptx::barrier_sync();
#pragma unroll 1
    for (int at = int(threadIdx.x); at < results; at += C::threads) {
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < C::subgroups_k; ++s) {
        sum += ptx::float_of(ptx::ld_shared<4>(sums + unsigned(s * results + at) * 4u).word[0]);
      }
      if constexpr (C::split_k == 1) {
        store(out, m0 + at / C::tile_n, n0 + at % C::tile_n * C::row_classes, sum);
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
        store(out, m0 + at / C::tile_n, n0 + at % C::tile_n * C::row_classes, sum);
      }
    }
  }

  __device__ static __forceinline__ void run(const T* x, const T* w, Out* out, float* partials, unsigned* counters) {
    // Blocks that read the same rows of w have adjacent numbers, so that they share w in L2.
    constexpr int tiles = C::tiles_m * C::tiles_n * C::row_classes;
    const int tile = int(blockIdx.x) % tiles, split = int(blockIdx.x) / tiles;
    const int m0 = tile % C::tiles_m * C::tile_m, row_class = tile / C::tiles_m % C::row_classes;
    // Row i of the tile is row n0 + i * row_classes of w.
    const int n0 = tile / C::tiles_m / C::row_classes * C::tile_n * C::row_classes + row_class;
    if (C::row_classes > C::n && row_class >= C::n) return;  // w has no row of this class
    const int first = split * C::tiles_of_split;
    // The block starts at element k0 of its rows. Steps start at aligned addresses. If rows are torn (may begin at
    // unaligned addresses), step 0 therefore starts `shift` elements before row n0.
    const int shift = torn ? int(static_cast<long long>(row_class) * C::k & (C::access - 1)) : 0;
    const int k0 = first * C::tile_k - shift;

    // Subgroups and lanes are numbered along k first.
    const int subgroup = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int subgroup_n = subgroup / C::subgroups_k, subgroup_k = subgroup % C::subgroups_k;
    const int lane_n = lane / C::lanes_k, lane_k = lane % C::lanes_k;
    const int thread_n = subgroup_n * C::rows_n * C::lanes_n + lane_n;
    const int batch_k = subgroup_k * C::batches_k * batch_elements;
    const int thread_k = batch_k + lane_k * C::access;  // position along k of the lane's first part

    RowsOfX x_rows;
    if constexpr (x_shared) copy_x(x, ptx::shared_memory(), m0, k0);
#pragma unroll
    for (int i = 0; i < (x_shared ? RowsOfX::slabs : decltype(x_rows.global)::addresses); ++i) {
      // A column of a fragment holds a row of x. Columns without a row of the tile hold copies of the tile's last row;
      // their sums are not used.
      int row = mma ? i * Mma::n + lane_n : i;
      if (row >= C::tile_m) row = C::tile_m - 1;
      if constexpr (x_shared) {
        const int element = batch_k + lane_k * C::vector_w;
        x_rows.slab[i] = ptx::shared_memory() + unsigned(row * C::line_bytes + element * int(sizeof(T)));
      } else {
        x_rows.global.set_row(i, x, row_of_x(m0 + row) * C::k, k0 + thread_k);
      }
    }
    RowsOfW w_rows;
#pragma unroll
    for (int j = 0; j < RowsOfW::addresses; ++j) {
      const int row = n0 + (thread_n + j * C::lanes_n) * C::row_classes;
      w_rows.set_row(j, w, row_of_w(row) * C::k, k0 + thread_k);
    }

    Sums sums;
    const int last = first + C::tiles_of_split < C::tiles_k ? first + C::tiles_of_split : C::tiles_k;
    // Number of steps that do not read beyond the end of k. If rows are torn (may begin at unaligned addresses), each
    // vector of x is realigned from two aligned vectors. The second one must not extend beyond the end, either.
    constexpr int whole_steps = (torn ? C::k - (C::k < C::access ? C::k : C::access) : C::k) / C::tile_k;
    const int whole = last < whole_steps ? last : whole_steps;
    int step = first;
    // Position of this thread in step `s`.
    const auto k_of_step = [&](int s) { return s * C::tile_k - shift + thread_k; };
    // Guarded steps (the first step of torn rows, and the last steps of all rows) are in the same loop as the other
    // steps.
    int until = torn && step == 0 ? 0 : whole;
#pragma unroll 1
    while (true) {
#pragma unroll 1
      for (; step + C::unroll <= until; step += C::unroll) {
        multiply<C::unroll, false>(sums, x_rows, w_rows, k_of_step(step));
      }
      if constexpr (C::unroll > 1) {
#pragma unroll 1
        for (; step < until; ++step) multiply<1, false>(sums, x_rows, w_rows, k_of_step(step));
      }
      if (C::k % C::tile_k == 0 || step >= last) break;
      multiply<1, true>(sums, x_rows, w_rows, k_of_step(step));
      ++step;
      until = whole;
    }

    const unsigned shared_sums = ptx::shared_memory() + unsigned(C::slab_bytes);
    sums.finish(lane, [&](int i, int j, float sum) {
      const int n = thread_n + j * C::lanes_n;
      if constexpr (through_shared) {
        const int at = (subgroup_k * C::tile_m + i) * C::tile_n + n;
        ptx::st_shared(shared_sums + unsigned(at) * 4u, AlignedVector<4>{{ptx::bits_of(sum)}});
      } else {
        store(out, m0 + i, n0 + n * C::row_classes, sum);
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
