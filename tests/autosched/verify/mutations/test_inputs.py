"""Planted faults that random inputs do not expose.

The faults concern identity elements, the treatment of NaN, ties and eps, and sums that cancel or overflow.
"""

from __future__ import annotations

from mutation_testing import Mutation, mutation_tests

STATES, OPERATORS, ACTIVATION = "common/reduce.cuh", "kernels/row_operators.cuh", "common/activation.cuh"
MAX = "float max = negative_infinity();\n\n  __device__ __forceinline__ unsigned get(int) const"
ARGMAX = "float max = negative_infinity();\n  unsigned index"
SOFTMAX = "float max = negative_infinity();\n  float sum"
F16_SOFTMAX, TWO_PASSES, F16_LAYERNORM = "softmax_bf16_split", "softmax_f16_registers", "layernorm_f16_reload"
COLUMN_MAX, RMSNORM, ROW_MAX = "fma_f16_column_max", "rmsnorm_bf16_shared", "mma_f16_row_sum"
ROW_REDUCED = (("reduction", "row_max"),)


def identity(name: str, case: str, state: str, value: str, fields: tuple[tuple[str, str], ...] = ()) -> Mutation:
    return Mutation(name, case, STATES, state, state.replace("negative_infinity()", value), fields=fields)


MUTATIONS = (
    identity("max starts at 0", "reduce_f32_max_split", MAX, "0.0f"),
    identity("max starts at the lowest finite number", "reduce_f32_max_split", MAX, "-3.402823466e38f"),
    identity("argmax starts at the lowest finite number", "reduce_f32_column_argmax", ARGMAX, "-3.402823466e38f"),
    identity("softmax in one pass starts its maximum at 0", F16_SOFTMAX, SOFTMAX, "0.0f"),
    identity("column_max starts at 0", COLUMN_MAX, MAX, "0.0f"),
    identity("row_max starts at the lowest finite number", ROW_MAX, MAX, "-3.402823466e38f", ROW_REDUCED),
    Mutation("a maximum of -infinity is subtracted from exponents", F16_SOFTMAX, STATES,
             "return max == negative_infinity() ? 0.0f : max;", "return max;"),
    Mutation("softmax in two passes without its maximum", TWO_PASSES, OPERATORS,
             "    if constexpr (Pass == 0) {\n      row.from_center = ExponentialFrom(state.max);",
             "    if constexpr (Pass == 0) {"),
    Mutation("rmsnorm without eps", RMSNORM, OPERATORS,
             "row.scale = rsqrtf(state.sum / length + eps);\n  }\n  __device__",
             "row.scale = rsqrtf(state.sum / length);\n  }\n  __device__", fields=(("dtype", "f16"),)),
    Mutation("layernorm in two passes without eps", F16_LAYERNORM, OPERATORS,
             "      row.scale = rsqrtf(state.sum / length + eps);", "      row.scale = rsqrtf(state.sum / length);"),
    Mutation("layernorm in one pass without eps", "layernorm_f32_one_pass", OPERATORS,
             "rsqrtf(state.squares / length + eps)", "rsqrtf(state.squares / length)"),
    Mutation("variance as a difference of squares", F16_LAYERNORM, OPERATORS,
             "    const float rest = x - row.center;\n", "    const float rest = Pass == 0 ? x : sqrtf("
             "fmaxf(x * x - row.center * row.center, 0.0f));\n"),
    Mutation("a part's squares are the sum of x^2 - mean^2, which cancels", "layernorm_f32_one_pass", OPERATORS,
             "part.squares = fmaf(x[i] - part.mean, x[i] - part.mean, part.squares);",
             "part.squares = fmaf(x[i], x[i], part.squares) - part.mean * part.mean;"),
    Mutation("max loses NaN", "reduce_f32_max_split", STATES,
             "max = ptx::max_nan(max, other.max); }\n};", "max = fmaxf(max, other.max); }\n};"),
    Mutation("column_max loses NaN", COLUMN_MAX, STATES,
             "max = ptx::max_nan(max, other.max); }\n};", "max = fmaxf(max, other.max); }\n};"),
    Mutation("argmax is the last of several equal maxima", "reduce_f16_argmax", STATES, "if (!(x <= max) &&",
             "if (!(x < max) &&"),
    Mutation("argmax passes over NaN", "reduce_f16_argmax", STATES, "if (!(x <= max) &&", "if (x > max &&"),
    Mutation("argmax is the last NaN", "reduce_f32_column_argmax", STATES, " && max == max) {", ") {"),
    Mutation("relu of NaN is zero", "wmma_f16_padded", ACTIVATION, "x < 0.0f ? 0.0f : x", "x > 0.0f ? x : 0.0f"),
)  # fmt: skip

test_the_unbroken_kernel_is_clean, test_every_mutation_is_reported = mutation_tests(MUTATIONS)
