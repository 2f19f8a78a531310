"""mma.sp.sync agrees with numpy for every shape, type, selector and saturation.

The mapping of elements to lanes and to metadata bits is written here from the tables of the PTX ISA ("Sparse matrix
storage" and the fragments of mma.sp), independently of the emulator's formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler
from ptx_snippets import WarpSnippet, run_ptx, warp_program

from search_spaces.hardware.dtypes import BF16, E4M3, E5M2, F16, F32, DType

pytestmark = needs_compiler

Numbers = npt.NDArray[np.float64]
MOST = 2**31 - 1
FLOATS: dict[str, DType] = {"f16": F16, "bf16": BF16, "tf32": F32, "e4m3": E4M3, "e5m2": E5M2}
BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4}


@dataclass(frozen=True)
class SparseMma:
    """An m16n8k instruction with sparse A. ``selector`` names the lanes with the metadata. ``out``: type of c and d."""

    k: int
    a: str
    b: str
    out: str
    selector: int
    ordered: bool = False
    saturates: bool = False
    kind: str = ""

    @property
    def opcode(self) -> str:
        variant = "sp::ordered_metadata" if self.ordered else "sp"
        options = ".satfinite" if self.saturates else ""
        types = f"{self.out}.{self.a}.{self.b}.{self.out}"
        return f"mma.{variant}.sync.aligned.m16n8k{self.k}.row.col{self.kind}{options}.{types}"

    @property
    def held(self) -> int:
        """Number of elements of A or B that a register holds."""
        return 32 // BITS[self.a]

    def registers(self) -> tuple[int, int, int]:
        return self.k * 16 // 2 // 32 // self.held, self.k * 8 // 32 // self.held, 2 if self.out == "f16" else 4


def selectors(a: str, k: int) -> range:
    """Return the valid selectors.

    In each group of 4 lanes, 1, 2 or 4 lanes hold 32 bits of metadata each. A kept element has 2 bits of metadata
    (tf32: 4 bits; s4 and u4: 2 bits per kept pair).
    """
    of_row = {"tf32": 4 * (k // 2), "s4": 2 * (k // 4), "u4": 2 * (k // 4)}.get(a, 2 * (k // 2))
    return range(4 // (16 * of_row // 32 // 8))


INTEGERS = [
    SparseMma(k, a, b, "s32", selector, ordered, saturates)
    for family, ks in ((("s8", "u8"), (32, 64)), (("s4", "u4"), (64, 128)))
    for a in family
    for b in family
    for k in ks
    for selector in selectors(a, k)
    for ordered, saturates in ((False, False), (True, True))
]
OF_FLOATS = [
    SparseMma(k, a, b, out, selector, ordered)
    for a, b, out, ks in (
        ("f16", "f16", "f16", (16, 32)), ("f16", "f16", "f32", (16, 32)), ("bf16", "bf16", "f32", (16, 32)),
        ("tf32", "tf32", "f32", (8, 16)), ("e4m3", "e4m3", "f32", (64,)), ("e4m3", "e5m2", "f32", (64,)),
        ("e5m2", "e4m3", "f32", (64,)), ("e5m2", "e5m2", "f32", (64,)),
    )
    for k in ks
    for selector in selectors(a, k)
    for ordered in (False, True)
]  # fmt: skip
OF_SM_120 = [
    SparseMma(64, a, b, out, 0, True, kind=kind)
    for a, b in (("e4m3", "e5m2"), ("e5m2", "e5m2"))
    for out, kind in (("f16", ""), ("f16", ".kind::f8f6f4"), ("f32", ".kind::f8f6f4"))
]
ALL = INTEGERS + OF_FLOATS + OF_SM_120


def encoded(kind: str, values: Numbers) -> list[int]:
    if kind in FLOATS:
        dtype = FLOATS[kind]
        width = {4: np.uint32, 2: np.uint16, 1: np.uint8}[dtype.bytes]
        return [int(x) for x in dtype.store(values).view(width)]
    return [int(x) & (2 ** BITS[kind] - 1) for x in values]


def packed(bits: list[int], width: int) -> list[int]:
    held = 32 // width
    return [sum(x << (width * i) for i, x in enumerate(bits[at : at + held])) for at in range(0, len(bits), held)]


def random_selection(mma: SparseMma, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the columns that each row of A keeps, as (16, k / 2), and the 2-bit metadata fields that select them."""
    columns, fields = [], []
    for _ in range(16):
        row: list[int] = []
        indices: list[int] = []
        if mma.a == "tf32":  # one of two elements is kept: 0b0100 selects the first, 0b1110 the second
            for pair in range(mma.k // 2):
                which = int(rng.integers(2))
                row.append(2 * pair + which)
                indices += [2, 3] if which else [0, 1]
        else:  # two of four are kept; 4-bit elements are kept in pairs
            unit = 2 if BITS[mma.a] == 4 else 1
            for four in range(mma.k // 4 // unit):
                first, second = rng.permutation(4)[:2].tolist()
                if mma.ordered:
                    first, second = sorted((first, second))
                indices += [first, second]
                row += [(4 * four + which) * unit + e for which in (first, second) for e in range(unit)]
        columns.append(row)
        fields.append(indices)
    return np.array(columns), np.array(fields)


def metadata_of(mma: SparseMma, fields: npt.NDArray[np.int64], rng: np.random.Generator) -> list[int]:
    """Return each lane's metadata word. The words of unselected lanes are random, and must be ignored."""
    words = rng.integers(0, 2**32, 32).tolist()
    per_row = fields.shape[1]
    lanes = 16 * per_row * 2 // 32 // 8  # how many of four lanes hold metadata
    for group in range(8):
        low, high = fields[group], fields[group + 8]
        if BITS[mma.a] <= 8:  # a lane has 16 fields of one row; lanes alternate between rows g and g + 8
            parts = [part for at in range(0, per_row, 16) for part in (low[at : at + 16], high[at : at + 16])]
        else:  # a lane has 8 fields of row g and then 8 of row g + 8
            parts = [np.concatenate((low[at : at + 8], high[at : at + 8])) for at in range(0, per_row, 8)]
        assert len(parts) == lanes
        for i, part in enumerate(parts):
            words[4 * group + mma.selector * lanes + i] = sum(int(x) << (2 * j) for j, x in enumerate(part))
    return words


def of_lane(mma: SparseMma, lane: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return (row, column) of a lane's elements of A, B and C. Columns of A are counted in the compressed matrix."""
    group, within = divmod(lane, 4)
    rows = (group, group + 8)
    columns = range(0, mma.k // 2, 4 * mma.held)
    a = [(row, half + within * mma.held + i) for half in columns for row in rows for i in range(mma.held)]
    b = [(part + within * mma.held + i, group) for part in range(0, mma.k, 4 * mma.held) for i in range(mma.held)]
    return a, b, [(row, 2 * within + i) for row in rows for i in range(2)]


def random_matrix(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Numbers:
    if kind in FLOATS:
        return rng.integers(-3, 4, shape).astype(np.float64)
    low = -(2 ** (BITS[kind] - 1)) if kind.startswith("s") else 0
    return rng.integers(low, low + 2 ** BITS[kind], shape).astype(np.float64)


def program(instructions: list[SparseMma]) -> str:
    return warp_program(
        [
            WarpSnippet(
                f"{mma.opcode} {{%d}}, {{%a}}, {{%b}}, {{%c}}, %e, {mma.selector};",
                mma.registers()[2],
                (*mma.registers(), 1),
            )
            for mma in instructions
        ]
    )


def words_of(
    mma: SparseMma, compressed: Numbers, b: Numbers, c: Numbers, metadata: list[int]
) -> npt.NDArray[np.uint64]:
    """Return the registers of each lane: a, b and c, then the metadata."""
    lanes = []
    for lane in range(32):
        at_a, at_b, at_c = of_lane(mma, lane)
        a_bits = encoded(mma.a, np.array([compressed[at] for at in at_a]))
        b_bits = encoded(mma.b, np.array([b[at] for at in at_b]))
        of_c = np.array([c[at] for at in at_c])
        if mma.out == "s32":
            c_words = [int(x) & 0xFFFFFFFF for x in of_c]
        else:
            c_words = packed(encoded("f16" if mma.out == "f16" else "tf32", of_c), 16 if mma.out == "f16" else 32)
        lanes.append(packed(a_bits, BITS[mma.a]) + packed(b_bits, BITS[mma.a]) + c_words + [metadata[lane]])
    return np.array(lanes, np.uint64).T


def test_every_sparse_mma_matches_numpy() -> None:
    rng = np.random.default_rng(5)
    words, expected = [], []
    for mma in ALL:
        columns, fields = random_selection(mma, rng)
        compressed, b = random_matrix(mma.a, (16, mma.k // 2), rng), random_matrix(mma.b, (mma.k, 8), rng)
        c = rng.integers(-50, 51, (16, 8)).astype(np.float64)
        if mma.out == "s32":
            c[0], c[-1] = MOST - 3, -MOST - 1 + 3  # makes sums exceed 32 bits
        elif mma.k == 16:
            b[1] = np.inf  # many rows of A drop this column; their results must not include zero times infinity
        dense = np.zeros((16, mma.k))
        np.put_along_axis(dense, columns, compressed, axis=1)
        with np.errstate(invalid="ignore"):  # a zero in a kept column is multiplied by infinity
            total = (compressed[:, :, None] * b[columns]).sum(1) + c
        if np.isfinite(b).all():
            np.testing.assert_array_equal(total, dense @ b + c)
        expected.append(total)
        words.append(words_of(mma, compressed, b, c, metadata_of(mma, fields, rng)))
    run = run_ptx(program(ALL), sum(32 * mma.registers()[2] for mma in ALL), np.concatenate(words))
    assert run.ok, run.reason
    results = run.outputs["out"].view(np.uint64).reshape(-1, 32).astype(np.uint32)
    at = saturated = 0
    for mma, right in zip(ALL, expected, strict=True):
        count = mma.registers()[2]
        actual = np.full((16, 8), np.nan)
        for lane in range(32):
            lane_results = np.ascontiguousarray(results[at : at + count, lane])
            values = lane_results.view({"s32": np.int32, "f32": np.float32, "f16": np.float16}[mma.out]).astype(
                np.float64
            )
            for position, value in zip(of_lane(mma, lane)[2], values, strict=True):
                actual[position] = value
        at += count
        if mma.saturates:
            saturated += bool((np.abs(right) > MOST).any())
            right = np.clip(right, -MOST - 1, MOST)
        elif mma.out == "s32":
            right = right.astype(np.int64).astype(np.uint32).view(np.int32).astype(np.float64)
        np.testing.assert_array_equal(actual, right, mma.opcode)
    assert saturated >= 8


@pytest.mark.parametrize(
    ("mma", "bits", "valid"),
    [
        (SparseMma(16, "f16", "f16", "f32", 0), 0b0101, "name two elements"),
        (SparseMma(16, "f16", "f16", "f32", 0, ordered=True), 0b0001, "in ascending order"),
        (SparseMma(8, "tf32", "tf32", "f32", 0), 0b1100, "0b0100 and 0b1110"),
    ],
)
def test_invalid_metadata_is_a_finding(mma: SparseMma, bits: int, valid: str) -> None:
    rng = np.random.default_rng(6)
    _, fields = random_selection(mma, rng)
    fields[3, :2] = bits & 3, bits >> 2
    zeros = np.zeros((16, mma.k // 2)), np.zeros((mma.k, 8)), np.zeros((16, 8))
    run = run_ptx(program([mma]), 32 * 4, words_of(mma, *zeros, metadata_of(mma, fields, rng)))
    assert [f.kind.value for f in run.findings] == ["invalid_argument"]
    assert "of row 3" in run.findings[0].message and valid in run.findings[0].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m16n8k32.row.col.f32.f16.f16.f32", "m16n8k64.row.col.f32.f16.f16.f32"),
        ("m16n8k32.row.col.f32.f16.f16.f32", "m16n8k32.col.col.f32.f16.f16.f32"),
        ("m16n8k32.row.col.f32.f16.f16.f32", "m16n8k32.row.col.satfinite.f32.f16.f16.f32"),
        (", 1;", ", 2;"),  # a selector that is invalid for this shape
    ],
)
def test_opcodes_outside_the_ptx_isa_are_unsupported(old: str, new: str) -> None:
    mma = SparseMma(32, "f16", "f16", "f32", 1)
    text = program([mma])
    assert old in text
    run = run_ptx(text.replace(old, new), 128, np.zeros((13, 32), np.uint64))
    assert run.status == "unsupported" and "mma.sp.sync.aligned" in run.reason
