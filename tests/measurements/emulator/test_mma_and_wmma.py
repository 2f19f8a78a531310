"""mma.sync and wmma agree with the reference of their intrinsic, in complete launches."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from library_kernels import Run, entry, output_of, same_floats, words
from register_files import execute

from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import F32, MULTIPLIED_DTYPES, round_to_tf32
from search_spaces.hardware.intrinsics import INTRINSICS
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.launches.operand import Operand


def operand_values(row: TensorIntrinsic, shape: tuple[int, int], seed: int) -> npt.NDArray[np.float32]:
    """Return random values that are exact in the type of the factors, ``row.type_a``."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if row.type_a == "tf32":
        return round_to_tf32(x)
    if row.type_a == "i8":
        return np.clip(np.rint(40 * x), -128, 127)
    stored = MULTIPLIED_DTYPES[row.type_a]
    return stored.load(stored.store(x)).astype(np.float32)


def as_words(row: TensorIntrinsic, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """Pack (..., values) into 32-bit words, two 16-bit or four 8-bit values per word."""
    if row.type_a == "tf32":
        return np.ascontiguousarray(values).view(np.uint32)
    stored = MULTIPLIED_DTYPES[row.type_a]
    return np.ascontiguousarray(stored.store(values)).view(np.uint32)


# Instructions with block scales need sm_120a. tests/autosched/include/test_block_scaled_matmul.py tests these.
MMA = [row for row in INTRINSICS.values() if row.unit == "mma" and row.needs != "block_scale_mma"]
WMMA = [row for row in INTRINSICS.values() if row.unit == "wmma"]


F16_CORNERS = (0.0, -0.0, 1.0, -2.0, 2.0**-24, -(2.0**-14), 65504.0, -65504.0, 240.0, np.inf, -np.inf, np.nan)


def in_f16_is_the_reference(run: Run, row: TensorIntrinsic, a: Array, b: Array) -> None:
    """Check random numbers, and all pairs of corner cases: one is a factor, the other is the initial sum."""
    rng = np.random.default_rng(9)
    c = rng.standard_normal((16, 8)).astype(np.float16)
    sets = [(a, b, c)]
    for factor, start in itertools.product(F16_CORNERS, F16_CORNERS):
        x, y, z = np.zeros_like(a), rng.integers(-2, 3, b.shape).astype(b.dtype), c.copy()
        at = rng.integers(row.k)
        x[:, at], z[::2] = factor, start
        x[8:, (at + 1) % row.k] = 60000.0
        sets.append((x, y, z))
    held = [[fragment.distribute(x) for fragment, x in zip((row.a, row.b, row.c), each, strict=True)] for each in sets]
    in_words = [np.stack([as_words(row, x) for x in part]) for part in zip(*held, strict=True)]
    na, nb = row.a.registers, row.b.registers
    source = entry(
        "const unsigned at = blockIdx.x * 32 + threadIdx.x;\n"
        f"unsigned x[{na}], y[{nb}];\n"
        "f16x2 d[2];\n"
        f"for (int i = 0; i < {na}; ++i) x[i] = ld_global_nc<4>(a + at * {na} + i).word[0];\n"
        f"for (int i = 0; i < {nb}; ++i) y[i] = ld_global_nc<4>(b + at * {nb} + i).word[0];\n"
        "for (int i = 0; i < 2; ++i) d[i] = f16x2(ld_global_nc<4>(c + at * 2 + i).word[0]);\n"
        f"{row.name.removesuffix('_f16')}(d, x, y);\n"
        "for (int i = 0; i < 2; ++i) st_global(o + at * 2 + i, AlignedVector<4>{{unsigned(d[i])}});",
        "const unsigned* a, const unsigned* b, const unsigned* c, unsigned* o",
    )
    arguments = (
        *(words(name, "input", x.size) for name, x in zip("abc", in_words, strict=True)),
        words("o", "output", in_words[2].size),
    )
    inputs = {name: x.reshape(-1) for name, x in zip("abc", in_words, strict=True)}
    out = output_of(run(source, arguments, inputs, grid=len(sets), block=32)).view(np.float16)
    with np.errstate(invalid="ignore"):
        expected = np.stack([execute(row, *each) for each in held])
    assert expected.dtype == np.float16 and np.isinf(expected).any() and np.isnan(expected).any()
    same_floats(out.reshape(expected.shape).astype(np.float64), expected.astype(np.float64))


def instructions(row: TensorIntrinsic) -> str:
    """Return the code of d += x * y: one instruction, or two of half the size for 8-bit types on sm_75."""
    if row.name == "mma_m16n8k16_i8":
        return "".join(f"mma_m8n8k16_s8(d[{2 * i}], d[{2 * i + 1}], x[{i}], y[0]);" for i in range(2))
    if row.until:
        return f"{row.name.removesuffix('_f16')}_f32(d, x, y);"
    return f"{row.name.replace('i8', 's8')}(d, x, y);"


@pytest.mark.parametrize("row", MMA, ids=lambda row: row.name)
def test_mma_agrees_with_the_reference_of_its_row(run: Run, row: TensorIntrinsic) -> None:
    a, b = operand_values(row, (16, row.k), 7), operand_values(row, (row.k, 8), 8)
    c = np.random.default_rng(9).standard_normal((16, 8)).astype(np.float32)
    if row.f16_sums:
        return in_f16_is_the_reference(run, row, a, b)
    sums = "int" if row.type_a == "i8" else "float"
    if sums == "int":
        c = np.rint(1000 * c)
    held = [f.distribute(x) for f, x in ((row.a, a), (row.b, b), (row.c, c))]
    registers_a, registers_b = row.a.registers, row.b.registers
    source = entry(
        "const unsigned lane = threadIdx.x;\n"
        f"unsigned x[{registers_a}], y[{registers_b}];\n"
        f"{sums} d[4];\n"
        f"for (int i = 0; i < {registers_a}; ++i) x[i] = ld_global_nc<4>(a + lane * {registers_a} + i).word[0];\n"
        f"for (int i = 0; i < {registers_b}; ++i) y[i] = ld_global_nc<4>(b + lane * {registers_b} + i).word[0];\n"
        "for (int i = 0; i < 4; ++i) d[i] = load(c + lane * 4 + i);\n"
        f"{instructions(row)}\n"
        "for (int i = 0; i < 4; ++i) st_global(o + lane * 4 + i, packet(d[i]));",
        "const unsigned* a, const unsigned* b, const float* c, float* o",
    )
    arguments = (
        words("a", "input", 32 * registers_a),
        words("b", "input", 32 * registers_b),
        Operand("c", "input", F32, (128,)),
        Operand("o", "output", F32, (128,)),
    )
    inputs = {
        "a": as_words(row, held[0]).reshape(-1),
        "b": as_words(row, held[1]).reshape(-1),
        "c": held[2].reshape(-1),
    }
    includes = "#include <autosched/ptx/mma/eight_bit.cuh>\n#include <autosched/ptx/mma/turing.cuh>\n"
    out = output_of(run(includes + source, arguments, inputs))
    np.testing.assert_array_equal(out.reshape(32, 4), execute(row, *held))
    np.testing.assert_allclose(row.c.collect(out.reshape(32, 4)), a.astype(np.float64) @ b + c, rtol=1e-5, atol=1e-5)


def wmma_source(row: TensorIntrinsic, registers: int, loaded: tuple[str, str], multiplied: tuple[str, str]) -> str:
    """Return a kernel that loads both tiles with padded strides, multiplies twice, scales all registers, and stores."""
    shape_and_type = row.name.removeprefix("wmma_")
    shape = shape_and_type.rsplit("_", 1)[0]
    element_bytes = 4 if row.type_a == "tf32" else 2
    return entry(
        f"constexpr int k = {row.k}, bytes = {element_bytes}, pad = 32 / bytes;\n"
        "const unsigned lane = threadIdx.x, sa = shared_memory(), sb = sa + 4096, sd = sb + 4096;\n"
        # Copy each row of the arrays to a padded row in shared memory.
        "auto fill = [&](unsigned to, const unsigned* from, int rows, int row_bytes, int pitch) {\n"
        "  for (int i = int(lane) * 4; i < rows * row_bytes; i += 128)\n"
        "    st_shared(to + i / row_bytes * pitch + i % row_bytes, ld_global_nc<4>(from + i / 4));\n"
        "};\n"
        f"constexpr int a_line = {row.k if loaded[0] == 'row' else 16};\n"
        f"constexpr int b_line = {16 if loaded[1] == 'row' else row.k};\n"
        "fill(sa, a, 16 * k / a_line, a_line * bytes, (a_line + pad) * bytes);\n"
        "fill(sb, b, 16 * k / b_line, b_line * bytes, (b_line + pad) * bytes);\n"
        "warp_sync();\n"
        f"unsigned x[{registers}], y[{registers}];\n"
        "float d[8];\n"
        "for (int i = 0; i < 8; ++i) d[i] = 1.0f;\n"
        f"wmma_load_a_{shape_and_type}<Major::{loaded[0]}>(x, sa, a_line + pad);\n"
        f"wmma_load_b_{shape_and_type}<Major::{loaded[1]}>(y, sb, b_line + pad);\n"
        "for (int i = 0; i < 2; ++i)\n"
        f"  wmma_mma_{shape_and_type}<Major::{multiplied[0]}, Major::{multiplied[1]}>(d, x, y);\n"
        "for (int i = 0; i < 8; ++i) d[i] = d[i] * 0.5f;\n"
        f"wmma_store_d_{shape}_f32(sd, d, 20);\n"
        "warp_sync();\n"
        "for (unsigned i = lane; i < 256; i += 32) st_global(o + i, ld_shared<4>(sd + (i / 16 * 20 + i % 16) * 4));",
        "const unsigned* a, const unsigned* b, float* o",
    )


def emulate_wmma(
    run: Run, row: TensorIntrinsic, loaded: tuple[str, str], multiplied: tuple[str, str]
) -> tuple[Array, npt.NDArray[np.float32]]:
    a, b = operand_values(row, (16, row.k), 10), operand_values(row, (row.k, 16), 11)
    memory = [as_words(row, x if order == "row" else x.T).reshape(-1) for x, order in zip((a, b), loaded, strict=True)]
    arguments = (
        words("a", "input", memory[0].size),
        words("b", "input", memory[1].size),
        Operand("o", "output", F32, (16, 16)),
    )
    source = wmma_source(row, row.a.registers, loaded, multiplied)
    out = output_of(run(source, arguments, {"a": memory[0], "b": memory[1]}, shared=12288))
    d = row.reference(a, b, row.reference(a, b, np.ones((16, 16))))
    return out, d * np.float32(0.5)


@pytest.mark.parametrize("orders", list(itertools.product(("row", "col"), repeat=2)), ids="-".join)
@pytest.mark.parametrize("row", WMMA, ids=lambda row: row.name)
def test_wmma_agrees_with_the_reference_of_its_row(run: Run, row: TensorIntrinsic, orders: tuple[str, str]) -> None:
    out, expected = emulate_wmma(run, row, orders, orders)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("row", WMMA, ids=lambda row: row.name)
def test_wmma_fragments_of_another_order_give_other_numbers(run: Run, row: TensorIntrinsic) -> None:
    out, expected = emulate_wmma(run, row, ("row", "col"), ("col", "col"))
    assert not np.allclose(out, expected, atol=0.1)


def test_wmma_and_mma_fragments_differ(run: Run) -> None:
    # The layout of wmma's accumulators is unspecified. A kernel that assumes mma.sync's layout must fail in the
    # emulator.
    source = entry(
        "const unsigned lane = threadIdx.x;\n"
        "float d[8];\n"
        "for (int i = 0; i < 8; ++i) {\n"
        "  const unsigned row = lane / 4 + i / 2 % 2 * 8, col = lane % 4 * 2 + i % 2 + i / 4 * 8;\n"
        "  d[i] = float(row * 16 + col);\n"
        "}\n"
        "wmma_store_d_m16n16k16_f32(shared_memory(), d, 16);\n"
        "warp_sync();\n"
        "for (unsigned i = lane; i < 256; i += 32) st_global(o + i, ld_shared<4>(shared_memory() + i * 4));",
        "float* o",
    )
    out = output_of(run(source, (Operand("o", "output", F32, (256,)),), {}, shared=1024))
    assert sorted(out) == list(range(256))
    assert np.mean(out == np.arange(256)) < 0.1
