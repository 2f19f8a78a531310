// Host twin: the accurate function where the instruction approximates.
#pragma once

namespace autosched::ptx {

inline float max_nan(float a, float b) { return a != a ? a : b != b ? b : a < b ? b : a; }
inline float ex2_approx_ftz(float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}

}  // namespace autosched::ptx
