"""ldmatrix and stmatrix of sm_100 for bytes, and for packed values of four and six bits.

The mapping of elements to lanes is written here from the fragments of the PTX ISA (9.7.14.5.15), independently of the
emulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler
from ptx_snippets import HEAD, run_ptx

from measurements.emulator import Emulation

pytestmark = needs_compiler

Array = npt.NDArray[Any]
LANE = np.arange(32)

PROGRAM = """{head}
.visible .entry kernel(.param .u64 out, .param .u64 in) {{
.shared .align 16 .b8 tile[512];
.reg .b64 %out, %in, %at, %w; .reg .b32 %t, %s, %row, %x, %m<4>; .reg .pred %p;
ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
mul.wide.u32 %at, %t, 16; add.u64 %at, %at, %in; mad.lo.u32 %row, %t, 16, %s;
ld.global.u64 %w, [%at]; {guard} st.shared.u64 [%row], %w;
ld.global.u64 %w, [%at+8]; {guard} st.shared.u64 [%row+8], %w;
bar.sync 0;
{body}
ret; }}
"""


def run(body: str, words: int, rows: Array, guard: str = "") -> Emulation:
    """Run ``body`` with 32 rows of 16 bytes in shared memory. %row is the address of each lane's row."""
    text = PROGRAM.format(head=HEAD.replace("sm_90", "sm_100a").replace("8.5", "8.6"), body=body, guard=guard)
    return run_ptx(text, words, np.ascontiguousarray(rows).view(np.uint64))


def loaded(shape: str, count: int, registers: int, kind: str, rows: Array, guard: str = "") -> tuple[Emulation, Array]:
    """Run ldmatrix. Return the launch, and an array (32, 4 * registers) of the bytes that each lane loads."""
    names = [f"%m{k}" for k in range(registers)]
    stores = " ".join(
        f"cvt.u64.u32 %w, {name}; mad.wide.u32 %at, %t, {8 * registers}, %out; st.global.u64 [%at+{8 * k}], %w;"
        for k, name in enumerate(names)
    )
    trans = ".trans" if shape == "m16n16" else ""
    body = f"ldmatrix.sync.aligned.{shape}.x{count}{trans}.shared.{kind} {{{', '.join(names)}}}, [%row]; {stores}"
    done = run(body, 32 * registers, rows, guard)
    words = done.outputs["out"].view(np.uint64).astype(np.uint32).reshape(32, registers)
    return done, np.ascontiguousarray(words).view(np.uint8)


def packed(values: Array, bits: int) -> Array:
    """Return rows of 16 bytes, each with 16 packed values of ``bits`` bits, followed by filler bytes."""
    bit_values = (values[..., None] >> np.arange(bits)) & 1
    together = np.packbits(bit_values.reshape(len(values), -1).astype(np.uint8), axis=1, bitorder="little")
    return np.concatenate([together, np.full((len(values), 16 - together.shape[1]), 0xA5, np.uint8)], axis=1)


def rows_of(kind: str) -> tuple[Array, Array]:
    """Return rows as stored in shared memory, and the values that they contain."""
    rng = np.random.default_rng(3)
    bits = {"b8": 8, "b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4}[kind]
    values = rng.integers(0, 2**bits, (32, 16))
    return (values.astype(np.uint8) if bits == 8 else packed(values, bits)), values.astype(np.uint8)


def transposed(values: Array, registers: int) -> Array:
    """Return the bytes of each lane's fragment after transposition, (32, 4 * registers).

    Each group of four lanes holds two columns, ``group`` and ``group`` + 8. Each lane holds four rows of these columns:
    rows 2r and 2r + 1 of the four are in its register r.
    """
    actual = np.zeros((32, 4 * registers), np.uint8)
    for byte in range(4 * registers):
        matrix, register, within = byte // 8, byte // 4 % 2, byte % 4
        row = 16 * matrix + 4 * (LANE % 4) + 2 * register + within % 2
        actual[:, byte] = values[row, LANE // 4 + 8 * (within // 2)]
    return actual


@pytest.mark.parametrize("kind", ["b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64"])
@pytest.mark.parametrize("count", [1, 2])
def test_matrices_that_are_transposed_on_their_way(count: int, kind: str) -> None:
    rows, values = rows_of(kind)
    done, actual = loaded("m16n16", count, 2 * count, kind, rows)
    assert done.ok, done.reason
    np.testing.assert_array_equal(actual, transposed(values, 2 * count))


@pytest.mark.parametrize("kind", ["b8x16.b6x16_p32", "b8x16.b4x16_p64"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_values_that_are_unpacked_on_their_way(count: int, kind: str) -> None:
    rows, values = rows_of(kind)
    done, actual = loaded("m8n16", count, count, kind, rows)
    assert done.ok, done.reason
    expected = values[: 8 * count].reshape(count, 32, 4).transpose(1, 0, 2).reshape(32, 4 * count)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_are_stored_transposed(count: int) -> None:
    names = ", ".join(f"%m{k}" for k in range(count))
    loads = " ".join(f"mad.wide.u32 %at, %t, 4, %in; ld.global.u32 %m{k}, [%at+{128 * k}];" for k in range(count))
    body = f"""{loads} stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%row], {{{names}}}; bar.sync 0;
mul.wide.u32 %at, %t, 16; add.u64 %at, %at, %out;
ld.shared.u64 %w, [%row]; st.global.u64 [%at], %w; ld.shared.u64 %w, [%row+8]; st.global.u64 [%at+8], %w;"""
    before = np.random.default_rng(4).integers(0, 256, (32, 16)).astype(np.uint8)
    done = run(body, 64, before)
    assert done.ok, done.reason
    original = before.reshape(4, 32, 4)  # register, lane, byte
    expected = before.copy()
    for register in range(count):
        for byte in range(4):
            row, column = 8 * register + 2 * (LANE % 4) + byte % 2, LANE // 4 + 8 * (byte // 2)
            expected[row, column] = original[register, LANE, byte]
    np.testing.assert_array_equal(done.outputs["out"].view(np.uint8).reshape(32, 16), expected)


def test_unwritten_rows_are_found() -> None:
    rows, _ = rows_of("b8")
    done, _ = loaded("m16n16", 1, 2, "b8", rows, guard="setp.lt.u32 %p, %t, 12; @%p")
    assert "uninitialized_shared_read" in {f.kind.value for f in done.findings}
