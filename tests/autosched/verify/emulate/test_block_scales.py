"""Triton's block-scaled matmuls, compiled for sm_120 without a GPU and emulated, agree with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler

import autosched
from search_spaces.hardware.dtypes import E4M3

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton_kernels  # noqa: E402
from ptx_snippets import HEAD, run_ptx  # noqa: E402
from scaled_products import CASES, POINTERS, random_elements, random_scales, scales, values  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

M, N, K = 32, 32, 128
INSTRUCTIONS = {
    "mxf8": "kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxf8 e5m2": "kind::mxf8f6f4.block_scale.scale_vec::1X",
    "mxf4": "kind::mxf4nvf4.block_scale.scale_vec::2X",
    "nvf4": "kind::mxf4nvf4.block_scale.scale_vec::4X",
}


@pytest.mark.parametrize("name", CASES)
def test_products_with_block_scales(name: str) -> None:
    kind, group, scaled_by = CASES[name]
    pointer, scale_pointer = POINTERS[kind], POINTERS[scaled_by]
    signature = {"a": pointer, "sa": scale_pointer, "b": pointer, "sb": scale_pointer, "o": "*fp32"}
    packed = 2 if kind == "e2m1" else 1
    constants: dict[str, Any] = {"M": M, "N": N, "K": K, "FORMAT": kind, "PACKED": packed, "GROUP": group}
    compiled = triton_kernels.compiled("scaled_dot", signature, constants, sm=120, num_warps=1)
    assert INSTRUCTIONS[name] in compiled.asm["ptx"]
    rng = np.random.default_rng(7)
    a, b = (random_elements(rng, kind, lines, K) for lines in (M, N))
    sa, sb = (random_scales(rng, scaled_by, lines, K // group) for lines in (M, N))
    out = np.zeros((M, N), np.float32)
    result = autosched.emulate(compiled, arguments=(a, sa, b, sb, out), grid=1, outputs=(4,))
    assert result.ok, result.reason
    left, right = (values(kind, x) * np.repeat(scales(scaled_by, s), group, axis=1) for x, s in ((a, sa), (b, sb)))
    expected = left @ right.T
    np.testing.assert_allclose(
        result.arrays[4], expected, rtol=1e-4, atol=1e-5 * np.abs(left).max() * np.abs(right).max()
    )


@pytest.mark.parametrize(("byte_a", "pair_a", "byte_b", "lane_b"), [(0, 0, 0, 0), (1, 1, 2, 3), (3, 0, 1, 2)])
def test_selectors_name_the_byte_and_the_lanes_of_scales(byte_a: int, pair_a: int, byte_b: int, lane_b: int) -> None:
    """Emulate one mma with random registers in every lane, and compare with the PTX ISA, section "Block scaling"."""
    rng = np.random.default_rng(3)
    registers = rng.integers(0, 2**32, (8, 32), dtype=np.uint64)  # 8 rows: a0 to a3, b0, b1, scales of a and b
    for i in range(6):  # make all bytes finite numbers of e4m3
        registers[i] &= 0x77777777
    registers[6:] = rng.integers(0x78, 0x88, (2, 32, 4)).astype(np.uint64) @ (256 ** np.arange(4, dtype=np.uint64))
    loads = "\n".join(f"ld.global.u32 %r{i}, [%p + {256 * i}];" for i in range(8))
    stores = "\n".join(f"st.global.b64 [%o + {256 * i}], {{%f{i}, %z}};" for i in range(4)).replace("b64", "v2.b32")
    text = f"""{HEAD}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.reg .b64 %p, %o, %d; .reg .b32 %t, %z, %r<8>; .reg .f32 %f<4>;
ld.param.u64 %o, [out]; ld.param.u64 %p, [in]; mov.u32 %t, %tid.x; mul.wide.u32 %d, %t, 8;
add.u64 %o, %o, %d; add.u64 %p, %p, %d; mov.u32 %z, 0;
{loads}
mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0
{{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}},
%r6, {{{byte_a}, {pair_a}}}, %r7, {{{byte_b}, {lane_b}}};
{stores}
ret; }}
"""
    run = run_ptx(text, 4 * 32, registers)
    assert run.ok, run.reason
    actual = run.outputs["out"].view(np.uint32).reshape(4, 32, 2)[:, :, 0].view(np.float32)

    def number(register: int, lane: int, index: int) -> float:
        return float(E4M3.load(np.array([int(registers[register, lane]) >> 8 * index & 255], np.uint8))[0])

    def factor(register: int, lane: int, byte: int) -> float:
        return float(2.0 ** ((int(registers[register, lane]) >> 8 * byte & 255) - 127))

    for lane in range(32):
        for v in range(4):
            row, column = lane // 4 + 8 * (v // 2), lane % 4 * 2 + v % 2
            of_row = factor(6, 4 * (row % 8) + 2 * pair_a + row // 8, byte_a)
            of_column = factor(7, 4 * column + lane_b, byte_b)
            products = sum(
                number(row // 8 + 2 * (k // 16), 4 * (row % 8) + k % 16 // 4, k % 4)
                * number(4 + k // 16, 4 * column + k % 16 // 4, k % 4)
                for k in range(32)
            )
            assert actual[v, lane] == pytest.approx(1 + products * of_row * of_column, rel=1e-4, abs=1e-3)
