// Operators of a row reduction: the result of a row, and the function applied to its elements.
// An operator makes `passes` passes over a row. Pass p adds elements to a State<p>, and `finish` converts the state of
// the whole row to a RowScale, which later passes and `apply` use. Operators without a function of elements, such as
// sums, define `result` instead of `finish` and `apply`.
#pragma once
#include <autosched/common/numeric.cuh>
#include <autosched/common/reduce.cuh>

namespace autosched {

struct RowScale {
  float center = 0.0f, scale = 0.0f;
  ExponentialFrom from_center;  // only used by softmax
};

// Parts of operators --------------------------------------------------------------------------------------------------

template <class Only>
struct OnePass {
  static constexpr int passes = 1;
  static constexpr bool indexed = false;  // true if the result is an index
  template <int>
  using State = Only;
};

template <class First, class Second>
struct TwoPasses {
  static constexpr int passes = 2;
  static constexpr bool indexed = false;
  template <int Pass>
  using State = conditional<Pass == 0, First, Second>;
};

// Implements `add` for operators that define `add_element`, which adds a single element.
template <class Op>
struct ByElement {
  template <int Pass, int Count, class State>
  __device__ __forceinline__ static void add(State& state, const float* x, int at, const RowScale& row) {
#pragma unroll
    for (int i = 0; i < Count; ++i) Op::template add_element<Pass>(state, x[i], at + i, row);
  }
};

// exp(x - max) / sum(exp(x - max)). The result is NaN if all elements of the row are -infinity, or if any element is
// +infinity or NaN.
struct SoftmaxElement {
  __device__ __forceinline__ static float apply(float x, const RowScale& row) {
    return row.from_center(x) * row.scale;
  }
};

// (x - mean) / sqrt(variance + eps)
struct LayerNormElement {
  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return (x - row.center) * row.scale; }
};

// Reductions ----------------------------------------------------------------------------------------------------------

template <bool Square, bool Mean>
struct ReduceSum : OnePass<SumState>, ByElement<ReduceSum<Square, Mean>> {
  template <int>
  __device__ __forceinline__ static void add_element(SumState& state, float x, int, const RowScale&) {
    state.sum = Square ? fmaf(x, x, state.sum) : state.sum + x;
  }
  __device__ __forceinline__ static float result(const SumState& state, float length) {
    return Mean ? state.sum / length : state.sum;
  }
};

struct ReduceMax : OnePass<MaxState>, ByElement<ReduceMax> {
  template <int>
  __device__ __forceinline__ static void add_element(MaxState& state, float x, int, const RowScale&) {
    state.max = ptx::max_nan(state.max, x);
  }
  __device__ __forceinline__ static float result(const MaxState& state, float) { return state.max; }
};

struct ReduceArgMax : OnePass<ArgMaxState>, ByElement<ReduceArgMax> {
  static constexpr bool indexed = true;

  template <int>
  __device__ __forceinline__ static void add_element(ArgMaxState& state, float x, int at, const RowScale&) {
    state.follow(x, unsigned(at));
  }
};

// Normalizations ------------------------------------------------------------------------------------------------------

struct SoftmaxOnePass : OnePass<MaxSumState>, SoftmaxElement {
  template <int, int Count>
  __device__ __forceinline__ static void add(MaxSumState& state, const float* x, int, const RowScale&) {
    float max = state.max;
#pragma unroll
    for (int i = 0; i < Count; ++i) max = ptx::max_nan(max, x[i]);
    const ExponentialFrom center(MaxSumState::base(max));
    state.sum = state.sum_from(center);
#pragma unroll
    for (int i = 0; i < Count; ++i) state.sum += center(x[i]);
    state.max = max;
  }
  template <int>
  __device__ __forceinline__ static void finish(RowScale& row, const MaxSumState& state, float, float) {
    row.from_center = ExponentialFrom(state.max);
    row.scale = 1.0f / state.sum;
  }
};

struct SoftmaxTwoPasses : TwoPasses<MaxState, SumState>, ByElement<SoftmaxTwoPasses>, SoftmaxElement {
  template <int Pass>
  __device__ __forceinline__ static void add_element(State<Pass>& state, float x, int, const RowScale& row) {
    if constexpr (Pass == 0) {
      state.max = ptx::max_nan(state.max, x);
    } else {
      state.sum += row.from_center(x);
    }
  }
  template <int Pass>
  __device__ __forceinline__ static void finish(RowScale& row, const State<Pass>& state, float, float) {
    if constexpr (Pass == 0) {
      row.from_center = ExponentialFrom(state.max);
    } else {
      row.scale = 1.0f / state.sum;
    }
  }
};

// x / sqrt(mean(x^2) + eps)
struct RmsNorm : ReduceSum<true, false> {
  template <int>
  __device__ __forceinline__ static void finish(RowScale& row, const SumState& state, float length, float eps) {
    row.scale = rsqrtf(state.sum / length + eps);
  }
  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return x * row.scale; }
};

// Layer norm in one pass, which merges the means and variances of parts of a row.
struct LayerNormOnePass : OnePass<MomentsState>, LayerNormElement {
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
};

// Layer norm in two passes: the first computes the mean, the second the squared differences.
struct LayerNormTwoPasses : TwoPasses<SumState, SumState>, ByElement<LayerNormTwoPasses>, LayerNormElement {
  template <int Pass>
  __device__ __forceinline__ static void add_element(SumState& state, float x, int, const RowScale& row) {
    const float rest = x - row.center;
    state.sum = Pass == 0 ? state.sum + x : fmaf(rest, rest, state.sum);
  }
  template <int Pass>
  __device__ __forceinline__ static void finish(RowScale& row, const SumState& state, float length, float eps) {
    if constexpr (Pass == 0) {
      row.center = state.sum / length;
    } else {
      row.scale = rsqrtf(state.sum / length + eps);
    }
  }
};

}  // namespace autosched
