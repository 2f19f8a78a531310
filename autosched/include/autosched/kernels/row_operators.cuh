// What the rows of a row reduction are reduced to, and what becomes of their elements.
//
// An operator makes `passes` passes over a row. Pass p adds elements to a State<p>, and `finish` turns the state of the
// whole row into `center` and `scale`, two numbers that later passes and `apply` use. The operators of the family
// `reduce` end there with `result`.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/common/reduce.cuh>

namespace autosched {

struct RowScale {
  float center = 0.0f, scale = 0.0f;
};

// Reductions ----------------------------------------------------------------------------------------------------------

template <bool Square, bool Mean>
struct ReduceSum {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;
  template <int>
  using State = SumState;

  template <int, int Count>
  __device__ __forceinline__ static void add(SumState& state, const float* x, int, const RowScale&) {
#pragma unroll
    for (int i = 0; i < Count; ++i) state.sum = Square ? fmaf(x[i], x[i], state.sum) : state.sum + x[i];
  }
  __device__ __forceinline__ static float result(const SumState& state, float length) {
    return Mean ? state.sum / length : state.sum;
  }
};

struct ReduceMax {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;
  template <int>
  using State = MaxState;

  template <int, int Count>
  __device__ __forceinline__ static void add(MaxState& state, const float* x, int, const RowScale&) {
#pragma unroll
    for (int i = 0; i < Count; ++i) state.max = ptx::max_nan(state.max, x[i]);
  }
  __device__ __forceinline__ static float result(const MaxState& state, float) { return state.max; }
};

struct ReduceArgMax {
  static constexpr int passes = 1;
  static constexpr bool indexed = true;
  template <int>
  using State = ArgMaxState;

  template <int, int Count>
  __device__ __forceinline__ static void add(ArgMaxState& state, const float* x, int at, const RowScale&) {
#pragma unroll
    for (int i = 0; i < Count; ++i) state.follow(x[i], unsigned(at + i));
  }
};

// Normalizations ------------------------------------------------------------------------------------------------------

// exp(x - max) / sum of the same. A row of -infinity, or with +infinity or NaN, is NaN throughout.
struct SoftmaxOnePass {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;
  template <int>
  using State = MaxSumState;

  template <int, int Count>
  __device__ __forceinline__ static void add(MaxSumState& state, const float* x, int, const RowScale&) {
    float max = state.max;
#pragma unroll
    for (int i = 0; i < Count; ++i) max = ptx::max_nan(max, x[i]);
    const float from = MaxSumState::base(max);
    state.sum *= exponential(state.max - from);
#pragma unroll
    for (int i = 0; i < Count; ++i) state.sum += exponential(x[i] - from);
    state.max = max;
  }
  template <int>
  __device__ __forceinline__ static void finish(RowScale& row, const MaxSumState& state, float, float) {
    row.center = state.max;
    row.scale = 1.0f / state.sum;
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) {
    return exponential(x - row.center) * row.scale;
  }
};

struct SoftmaxTwoPasses {
  static constexpr int passes = 2;
  static constexpr bool indexed = false;
  template <int Pass>
  using State = conditional<Pass == 0, MaxState, SumState>;

  template <int Pass, int Count>
  __device__ __forceinline__ static void add(State<Pass>& state, const float* x, int, const RowScale& row) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if constexpr (Pass == 0) {
        state.max = ptx::max_nan(state.max, x[i]);
      } else {
        state.sum += exponential(x[i] - row.center);
      }
    }
  }
  template <int Pass>
  __device__ __forceinline__ static void finish(RowScale& row, const State<Pass>& state, float, float) {
    if constexpr (Pass == 0) {
      row.center = state.max;
    } else {
      row.scale = 1.0f / state.sum;
    }
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) {
    return exponential(x - row.center) * row.scale;
  }
};

// x / sqrt(mean(x^2) + eps)
struct RmsNorm {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;
  template <int>
  using State = SumState;

  template <int, int Count>
  __device__ __forceinline__ static void add(SumState& state, const float* x, int, const RowScale&) {
#pragma unroll
    for (int i = 0; i < Count; ++i) state.sum = fmaf(x[i], x[i], state.sum);
  }
  template <int>
  __device__ __forceinline__ static void finish(RowScale& row, const SumState& state, float length, float eps) {
    row.scale = rsqrtf(state.sum / length + eps);
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return x * row.scale; }
};

// (x - mean) / sqrt(variance + eps), mean and variance merged from parts in one pass ...
struct LayerNormOnePass {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;
  template <int>
  using State = MomentsState;

  template <int, int Count>
  __device__ __forceinline__ static void add(MomentsState& state, const float* x, int, const RowScale&) {
    MomentsState part;
    part.count = float(Count);
#pragma unroll
    for (int i = 0; i < Count; ++i) part.mean += x[i];
    part.mean *= 1.0f / float(Count);
#pragma unroll
    for (int i = 0; i < Count; ++i) part.squares = fmaf(x[i] - part.mean, x[i] - part.mean, part.squares);
    state.merge(part);
  }
  template <int>
  __device__ __forceinline__ static void finish(RowScale& row, const MomentsState& state, float length, float eps) {
    row.center = state.mean;
    row.scale = rsqrtf(state.squares / length + eps);
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return (x - row.center) * row.scale; }
};

// ... or the mean first, then the squares of what is left.
struct LayerNormTwoPasses {
  static constexpr int passes = 2;
  static constexpr bool indexed = false;
  template <int>
  using State = SumState;

  template <int Pass, int Count>
  __device__ __forceinline__ static void add(SumState& state, const float* x, int, const RowScale& row) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float rest = x[i] - row.center;
      state.sum = Pass == 0 ? state.sum + x[i] : fmaf(rest, rest, state.sum);
    }
  }
  template <int Pass>
  __device__ __forceinline__ static void finish(RowScale& row, const SumState& state, float length, float eps) {
    if constexpr (Pass == 0) {
      row.center = state.sum / length;
    } else {
      row.scale = rsqrtf(state.sum / length + eps);
    }
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return (x - row.center) * row.scale; }
};

}  // namespace autosched
