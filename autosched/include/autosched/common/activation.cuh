// Activation functions of a matmul's epilogue, in f32. NaN is preserved.
#pragma once
#include <autosched/common/choice.cuh>

namespace autosched {

enum class Activation { none, relu, gelu, silu };

// Converts the name of an activation in a problem (search_spaces/operators/matmul.py).
__host__ __device__ constexpr Activation activation(const Choice& name) {
  return name == "relu"   ? Activation::relu
         : name == "gelu" ? Activation::gelu
         : name == "silu" ? Activation::silu
                          : Activation::none;
}

template <Activation Kind>
__device__ __forceinline__ float activate(float x) {
  if constexpr (Kind == Activation::relu) {
    return x < 0.0f ? 0.0f : x;
  } else if constexpr (Kind == Activation::gelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  } else if constexpr (Kind == Activation::silu) {
    return x / (1.0f + expf(-x));
  } else {
    return x;
  }
}

}  // namespace autosched
