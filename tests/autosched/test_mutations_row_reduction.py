"""Break the row reduction kernels in many ways: the emulator and the reference together must report every one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutation_testing import Mutation, found_in, found_with

KERNEL, OPERATORS, STATES = "kernels/row_reduction.cuh", "kernels/row_operators.cuh", "common/reduce.cuh"

MUTATIONS = (
    Mutation("no barrier between subgroups", "softmax_f16_registers", KERNEL,
             "    ptx::barrier_sync();\n#pragma unroll\n    for (int j = 0; j < kept_each; ++j) {\n      "
             "const auto load",
             "#pragma unroll\n    for (int j = 0; j < kept_each; ++j) {\n      const auto load"),
    Mutation("both passes use one area", "layernorm_f16_reload", KERNEL,
             "unsigned(Pass * State<0>::words * C::subgroups * slots * 4)", "0u"),
    Mutation("any lane writes its subgroup's state", "reduce_f16_partial", KERNEL,
             "if (lane_reduced != 0 || warp_reduced != 0) return;", "if (lane_reduced > 1) return;"),
    Mutation("subgroups share a slot", "softmax_f16_registers", KERNEL,
             "area + unsigned((subgroup * words + word) * slots + slot(j)) * 4u",
             "area + unsigned(word * slots + slot(j)) * 4u"),
    Mutation("slots of two rows are one", "softmax_f16_registers", KERNEL,
             "return j * kept_threads + warp_kept", "return warp_kept"),
    Mutation("row tail", "softmax_f16_registers", KERNEL, "kept(b) < C::kept_extent", "kept(b) <= C::kept_extent"),
    Mutation("tail of a row", "layernorm_f16_reload", KERNEL, "whole_steps || at < end", "true"),
    Mutation("a step too few", "layernorm_f32_one_pass", KERNEL, "for (int s = 0; s < count; ++s)",
             "for (int s = 0; s < count - 1; ++s)"),
    Mutation("unrolled loads overlap", "layernorm_f16_reload", KERNEL,
             "warp_reduced * C::unroll + u", "warp_reduced + u"),
    Mutation("lanes leave gaps", "reduce_bf16_columns", KERNEL,
             "+ u) * C::lanes + lane_reduced) * reduced_vector", "+ u) * C::lanes + lane_kept) * reduced_vector"),
    Mutation("batches of rows overlap", "reduce_f16_argmax", KERNEL,
             "((warp_kept * C::batch + b) * kept_lanes", "((warp_kept + b) * kept_lanes"),
    Mutation("no wait for cp.async", "rmsnorm_bf16_shared", KERNEL, "      ptx::cp_async_wait_group<0>();\n", ""),
    Mutation("kept packets share an address", "rmsnorm_bf16_shared", KERNEL,
             "(s * C::unroll + u) * C::batch + b) * threads", "s * C::batch + b) * threads"),
    Mutation("kept registers in the wrong order", "softmax_f16_registers", KERNEL,
             "kept_packets.packet[(s * C::unroll + u) * C::batch + b]", "kept_packets.packet[(s * C::unroll + u) + b]"),
    Mutation("part counted before its states are stored", "reduce_f32_max_split", KERNEL,
             "ptx::barrier_sync();  // ... of every thread", ""),
    Mutation("no fence before the count", "softmax_bf16_split", KERNEL,
             "ptx::fence_gpu();     // partial states before the count ...", ""),
    Mutation("first part finishes the row", "softmax_bf16_split", KERNEL, "!= C::split - 1) return", "!= 0) return"),
    Mutation("counter not reset", "reduce_f32_max_split", KERNEL,
             "if (threadIdx.x == 0) ptx::st_global(counter, Packet<4>{{0u}});  // ready for the next launch", ""),
    Mutation("partial states share an address", "layernorm_f32_one_pass", KERNEL,
             "((group * C::split + part) * words + word) * slots", "((group * C::split + part) + word) * slots"),
    Mutation("only a part is normalized", "softmax_bf16_split", KERNEL, "      here.begin = 0;\n", ""),
    Mutation("outer index of columns", "reduce_bf16_columns", KERNEL,
             "static_cast<long long>(outer) * C::length * C::inner", "static_cast<long long>(outer) * C::length"),
    Mutation("results of outer indices overlap", "reduce_bf16_columns", KERNEL,
             "out + static_cast<long long>(outer) * C::kept_extent", "out"),
    Mutation("column stride", "reduce_f16_column_sumsq", KERNEL, "static_cast<long long>(at) * C::inner",
             "static_cast<long long>(at) * C::vector"),
    Mutation("weight of another column", "rmsnorm_bf16_shared", KERNEL, "(weight + at)", "(weight)"),
    Mutation("bias left out", "layernorm_f16_reload", KERNEL, "y[e] += get_element<T>(w, e);", ";"),
    Mutation("only the first 16 bytes stored", "reduce_bf16_columns", KERNEL,
             "for (int i = 0; i < Count; i += width) ptx",
             "for (int i = 0; i < 1; i += 2 * width) ptx"),
    Mutation("lanes reduced too few", "reduce_f16_partial", STATES,
             "mask < Stride * Lanes", "mask < Stride * Lanes / 2"),
    Mutation("lanes of a column next to each other", "reduce_bf16_columns", KERNEL,
             "lane_stride = C::along ? 1 : kept_lanes", "lane_stride = C::along ? 1 : 1"),
    Mutation("last parts left out", "reduce_f32_max_split", STATES, "load(state, lane % readers);", "load(state, 0);"),
    Mutation("sum not rescaled", "softmax_bf16_split", OPERATORS,
             "    state.sum *= exponential(state.max - from);\n", ""),
    Mutation("merged sums not rescaled", "softmax_bf16_split", STATES,
             "other.sum * exponential(other.max - from)", "other.sum"),
    Mutation("moments merged without the means' distance", "layernorm_f32_one_pass", STATES,
             " + apart * (count * share) * apart", ""),
    Mutation("mean not divided", "reduce_f16_partial", OPERATORS, "Mean ? state.sum / length : state.sum", "state.sum"),
    Mutation("index within the vector lost", "reduce_f16_argmax", OPERATORS, "unsigned(at + i)", "unsigned(at)"),
    Mutation("column index shifted", "reduce_f32_column_argmax", STATES, "      index = at;", "      index = at + 1;"),
    Mutation("mean square without length", "rmsnorm_bf16_shared", OPERATORS,
             "    row.scale = rsqrtf(state.sum / length + eps);\n  }\n"
             "  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return x *",
             "    row.scale = rsqrtf(state.sum + eps);\n  }\n"
             "  __device__ __forceinline__ static float apply(float x, const RowScale& row) { return x *"),
)  # fmt: skip


@pytest.mark.parametrize("case", sorted({m.case for m in MUTATIONS} | {"softmax_f32_shared"}))
def test_the_unbroken_row_kernel_is_clean(case: str) -> None:
    assert found_in(case) == "ok"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_every_row_mutation_is_reported(mutation: Mutation, tmp_path: Path) -> None:
    found = found_with(mutation, tmp_path)
    assert found != "ok"
    assert not found.startswith("compile_error"), found  # an edit that does not compile proves nothing
