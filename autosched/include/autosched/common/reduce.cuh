// State of a reduction, and the combination of the states of a row's threads.
//
// A state is a few 32-bit words: `get` and `set` move them between threads, `merge` joins the state of another part of
// the same row. A state that has seen no element is its initial one, and merging it changes nothing. NaN stays: it
// ends up in sum, maximum and moments, and an argmax points to the first one, as numpy has it.
#pragma once
#include <autosched/ptx/arithmetic.cuh>
#include <autosched/ptx/convert.cuh>
#include <autosched/ptx/warp/shuffle.cuh>

namespace autosched {

inline constexpr float log2_e = 1.44269504088896341f;

__device__ __forceinline__ float negative_infinity() { return ptx::float_of(0xff800000u); }

// exp(x - center) for many x, to 2^-22 relative and 2^-23 per unit of |x - center|: one FMA before each power of two.
// Rounding center * log2(e) makes a factor that they all have in common, and that a quotient of them has not.
struct ExponentialFrom {
  float slope = log2_e, offset = 0.0f;

  __device__ __forceinline__ ExponentialFrom() = default;
  // From 2^126 on, where the product may overflow, the next smaller x is so far from the center that with any slope
  // the center gives 1 and the others 0; with a power of two the product is exact. NaN where x and center are the same
  // infinity.
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

// The largest value and its index; the first one of equal values, or of several NaN.
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
  // An element after all elements of this state.
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

// The maximum, and the sum of exp(x - maximum): what a softmax needs, in one pass ("Online normalizer calculation for
// softmax", arXiv 1805.02867).
struct MaxSumState {
  static constexpr int words = 2;
  float max = negative_infinity();
  float sum = 0.0f;

  __device__ __forceinline__ unsigned get(int word) const { return ptx::bits_of(word == 0 ? max : sum); }
  __device__ __forceinline__ void set(int word, unsigned value) { (word == 0 ? max : sum) = ptx::float_of(value); }
  // Value subtracted from exponents. A part whose maximum is -infinity has a sum of zero, not of NaN: another
  // part of the row may be finite.
  __device__ __forceinline__ static float base(float max) { return max == negative_infinity() ? 0.0f : max; }
  // The sum, relative to another maximum and as its center is rounded.
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

// Over Lanes lanes that are Stride apart in the warp; every one of them gets the whole.
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

// Over Parts states that lie in memory; `load(state, i)` reads the i-th. Lanes lanes, Stride apart, of which this is
// number `lane`, share the reading; all of them get the whole, added up in an order that the run does not change.
template <int Parts, int Lanes, int Stride, class State, class Load>
__device__ __forceinline__ State reduce_parts(int lane, Load load) {
  constexpr int readers = Parts < Lanes ? Parts : Lanes;
  static_assert(Parts % readers == 0, "rule parts: lanes and parts are powers of two");
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
