// States of reductions, and the combination of the states of all threads of a row.
//
// A state consists of a few 32-bit words. `get` and `set` read and write these words to move a state between threads.
// `merge` combines a state with the state of another part of the same row. Merging the initial state changes nothing.
// As in numpy, sums, maxima and moments propagate NaN, and argmax returns the first NaN.
#pragma once
#include <autosched/ptx/arithmetic.cuh>
#include <autosched/ptx/convert.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched {

inline constexpr float log2_e = 1.44269504088896341f;

__device__ __forceinline__ float negative_infinity() { return ptx::float_of(0xff800000u); }

// Computes exp(x - center) for many x, by one FMA and a power of two for each x. The relative error is 2^-22 plus 2^-23
// per unit of |x - center|. Rounding center * log2(e) gives all values a common factor, which cancels in quotients.
struct ExponentialFrom {
  float slope = log2_e, offset = 0.0f;

  __device__ __forceinline__ ExponentialFrom() = default;
  // For |center| from 2^126 on, center * log2(e) may overflow. For such a center, the result is 1 for x = center and 0
  // for all other x, because the next smaller x is far away. Any slope gives these results. The slope is a power of
  // two, so that the product is exact. The result is NaN if x and center are the same infinity.
  __device__ __forceinline__ explicit ExponentialFrom(float center)
      : slope(fabsf(center) < 0x1p126f ? log2_e : 0.25f), offset(-center * slope) {}
  __device__ __forceinline__ float exponent(float x) const { return fmaf(x, slope, offset); }
  __device__ __forceinline__ float operator()(float x) const { return ptx::ex2_approx_ftz(exponent(x)); }
};

struct SumState {
  static constexpr int words = 1;
  float sum = 0.0f;

  __device__ __forceinline__ unsigned get(int) const { return ptx::bits_of(sum); }
  __device__ __forceinline__ void set(int, unsigned word) { sum = ptx::float_of(word); }
  __device__ __forceinline__ void merge(const SumState& other) { sum += other.sum; }
};

struct MaxState {
  static constexpr int words = 1;
  float max = negative_infinity();

  __device__ __forceinline__ unsigned get(int) const { return ptx::bits_of(max); }
  __device__ __forceinline__ void set(int, unsigned word) { max = ptx::float_of(word); }
  __device__ __forceinline__ void merge(const MaxState& other) { max = ptx::max_nan(max, other.max); }
};

// The largest value, and the index of its first occurrence. NaN is larger than all other values.
struct ArgMaxState {
  static constexpr int words = 2;
  float max = negative_infinity();
  unsigned index = 0xffffffffu;

  __device__ __forceinline__ unsigned get(int word) const { return word == 0 ? ptx::bits_of(max) : index; }
  __device__ __forceinline__ void set(int word, unsigned value) {
    if (word == 0) {
      max = ptx::float_of(value);
    } else {
      index = value;
    }
  }
  // Adds an element whose index is larger than the indices of all elements of this state.
  __device__ __forceinline__ void follow(float x, unsigned at) {
    if (!(x <= max) && max == max) {
      max = x;
      index = at;
    }
  }
  __device__ __forceinline__ void merge(const ArgMaxState& other) {
    const bool nan = max != max, other_nan = other.max != other.max;
    const bool equal = nan ? other_nan : other.max == max;
    if (equal ? other.index < index : other_nan || (!nan && other.max > max)) *this = other;
  }
};

// The maximum and the sum of exp(x - maximum) in one pass, as a softmax needs them ("Online normalizer calculation for
// softmax", arXiv 1805.02867).
struct MaxSumState {
  static constexpr int words = 2;
  float max = negative_infinity();
  float sum = 0.0f;

  __device__ __forceinline__ unsigned get(int word) const { return ptx::bits_of(word == 0 ? max : sum); }
  __device__ __forceinline__ void set(int word, unsigned value) { (word == 0 ? max : sum) = ptx::float_of(value); }
  // The value that is subtracted from exponents. If the maximum of a part of the row is -infinity, its sum must be 0
  // instead of NaN, because another part of the row may be finite.
  __device__ __forceinline__ static float base(float max) { return max == negative_infinity() ? 0.0f : max; }
  // Returns the sum of exp(x - other) for another maximum. `center` is ExponentialFrom(other), which includes the
  // rounding of other * log2(e).
  __device__ __forceinline__ float sum_from(const ExponentialFrom& center) const {
    const float own = base(max);
    return sum * ptx::ex2_approx_ftz(center.exponent(max) - ExponentialFrom(own).exponent(own));
  }
  __device__ __forceinline__ void merge(const MaxSumState& other) {
    const float both = ptx::max_nan(max, other.max);
    const ExponentialFrom center(base(both));
    sum = sum_from(center) + other.sum_from(center);
    max = both;
  }
};

// Count, mean and sum of squared differences from the mean (Chan, Golub and LeVeque 1979).
struct MomentsState {
  static constexpr int words = 3;
  float count = 0.0f, mean = 0.0f, squares = 0.0f;

  __device__ __forceinline__ unsigned get(int word) const {
    return ptx::bits_of(word == 0 ? count : word == 1 ? mean : squares);
  }
  __device__ __forceinline__ void set(int word, unsigned value) {
    (word == 0 ? count : word == 1 ? mean : squares) = ptx::float_of(value);
  }
  __device__ __forceinline__ void merge(const MomentsState& other) {
    const float total = count + other.count;
    const float share = total > 0.0f ? other.count / total : 0.0f;
    const float apart = other.mean - mean;
    mean += apart * share;
    squares += other.squares + apart * (count * share) * apart;
    count = total;
  }
};

// Combines the states of Lanes lanes of the warp, which are Stride apart. All these lanes get the result.
template <int Lanes, int Stride, class State>
__device__ __forceinline__ void reduce_lanes(State& state) {
#pragma unroll
  for (int mask = Stride; mask < Stride * Lanes; mask *= 2) {
    State other;
#pragma unroll
    for (int w = 0; w < State::words; ++w) other.set(w, ptx::shfl_bfly(state.get(w), mask));
    state.merge(other);
  }
}

// Combines `Parts` states in memory. `load(state, i)` reads state i. The work is shared by `Lanes` lanes at a distance
// of `Stride` from each other; `lane` is the number of the calling lane among them. The states are combined in a fixed
// order, and all these lanes get the result.
template <int Parts, int Lanes, int Stride, class State, class Load>
__device__ __forceinline__ State reduce_parts(int lane, Load load) {
  constexpr int readers = Parts < Lanes ? Parts : Lanes;
  static_assert(Parts % readers == 0, "rule parts: lanes and parts must be powers of two");
  State state;
  load(state, lane % readers);
#pragma unroll 8
  for (int i = readers; i < Parts; i += readers) {
    State other;
    load(other, lane % readers + i);
    state.merge(other);
  }
  reduce_lanes<readers, Stride>(state);
  return state;
}

}  // namespace autosched
