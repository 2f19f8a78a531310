"""mma.sync of 8-bit, 4-bit and 1-bit integers agrees with numpy for every shape, sign, operation and saturation.

Which lane has which element is written down here from the tables of the PTX ISA ("Matrix Fragments for mma.m8n8k32",
".m16n8k64", ".m8n8k128" and so on), independently of the emulator's formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from needs import needs_compiler
from ptx_snippets import WarpSnippet, run_ptx, warp_program

pytestmark = needs_compiler

Ints = npt.NDArray[np.int64]
BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
SHAPES = {
    8: ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    4: ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    1: ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
}
SIGNS = {8: ("s8", "u8"), 4: ("s4", "u4"), 1: ("b1",)}
MOST = 2**31 - 1


@dataclass(frozen=True)
class Mma:
    """One instruction. ``op`` is "xor" or "and" for single bits, otherwise empty. ``saturates`` means .satfinite."""

    shape: tuple[int, int, int]
    a: str
    b: str
    op: str = ""
    saturates: bool = False

    @property
    def opcode(self) -> str:
        m, n, k = self.shape
        options = ".satfinite" if self.saturates else ""
        popc = f".{self.op}.popc" if self.op else ""
        return f"mma.sync.aligned.m{m}n{n}k{k}.row.col{options}.s32.{self.a}.{self.b}.s32{popc}"

    def registers(self) -> tuple[int, int, int]:
        """Return how many registers a lane has for a, b and c."""
        m, n, k = self.shape
        held = 32 // BITS[self.a]
        return m * k // 32 // held, k * n // 32 // held, m * n // 32

    def __call__(self, a: Ints, b: Ints, c: Ints) -> Ints:
        products = (a[:, :, None] ^ b[None]).sum(axis=1) if self.op == "xor" else a @ b
        total: Ints = products + c
        if self.saturates:
            return np.clip(total, -MOST - 1, MOST)
        return total.astype(np.uint32).view(np.int32).astype(np.int64)


ALL = [
    *(
        Mma(shape, a, b, saturates=saturates)
        for bits in (8, 4)
        for shape in SHAPES[bits]
        for a in SIGNS[bits]
        for b in SIGNS[bits]
        for saturates in (False, True)
    ),
    *(Mma(shape, "b1", "b1", op) for shape in SHAPES[1] for op in ("xor", "and")),
]


def random_matrix(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
    """Return random values. About two thirds of them are the lowest or the highest value of the type."""
    bits = BITS[kind]
    low = -(2 ** (bits - 1)) if kind.startswith("s") else 0
    high = low + 2**bits - 1
    values = rng.integers(low, high + 1, shape)
    extreme = rng.integers(0, 3, shape)
    values = np.where(extreme == 0, low, np.where(extreme == 1, high, values)).astype(np.int64)
    values[1], values[:, 1] = low, high
    return values


def of_lane(mma: Mma, lane: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return (row, column) of a lane's elements of A, B and C, in the order of registers, lowest bits first."""
    m, _, k = mma.shape
    group, within = divmod(lane, 4)
    held = 32 // BITS[mma.a]  # elements per register
    halves = range(0, k, 4 * held)  # four lanes with one register each cover this many elements along k
    rows = range(group, m, 8)
    a = [(row, half + within * held + i) for half in halves for row in rows for i in range(held)]
    b = [(half + within * held + i, group) for half in halves for i in range(held)]
    c = [(row, 2 * within + i) for row in rows for i in range(2)]
    return a, b, c


def packed(values: list[int], bits: int) -> list[int]:
    """Return the registers that hold ``values``."""
    held, mask = 32 // bits, 2**bits - 1
    return [
        sum((int(x) & mask) << (bits * i) for i, x in enumerate(values[at : at + held]))
        for at in range(0, len(values), held)
    ]


def registers_of(mma: Mma, a: Ints, b: Ints, c: Ints) -> list[list[int]]:
    """Return the registers of each lane: first a, then b, then c."""
    bits = BITS[mma.a]
    lanes = []
    for lane in range(32):
        of_a, of_b, of_c = of_lane(mma, lane)
        lanes.append(
            packed([a[at] for at in of_a], bits)
            + packed([b[at] for at in of_b], bits)
            + [int(c[at]) & 0xFFFFFFFF for at in of_c]
        )
    return lanes


def program(instructions: list[Mma]) -> str:
    return warp_program(
        [
            WarpSnippet(f"{mma.opcode} {{%d}}, {{%a}}, {{%b}}, {{%c}};", mma.registers()[2], mma.registers())
            for mma in instructions
        ]
    )


def test_every_integer_mma_matches_numpy() -> None:
    rng = np.random.default_rng(4)
    words: list[list[int]] = []
    expected = []
    for mma in ALL:
        m, n, k = mma.shape
        a, b = random_matrix(mma.a, (m, k), rng), random_matrix(mma.b, (k, n), rng)
        c = rng.integers(-(10**6), 10**6, (m, n))
        c[0], c[-1] = MOST - 3, -MOST - 1 + 3  # makes sums exceed 32 bits
        expected.append(mma(a, b, c))
        words += np.array(registers_of(mma, a, b, c)).T.tolist()
    run = run_ptx(program(ALL), sum(32 * mma.registers()[2] for mma in ALL), np.array(words, np.uint64))
    assert run.ok, run.reason
    results = run.outputs["out"].view(np.uint64).reshape(-1, 32).astype(np.uint32).view(np.int32)
    saturated = wrapped = at = 0
    for mma, right in zip(ALL, expected, strict=True):
        actual = np.full_like(right, -1)
        for lane in range(32):
            for i, position in enumerate(of_lane(mma, lane)[2]):
                actual[position] = results[at + i, lane]
        at += mma.registers()[2]
        np.testing.assert_array_equal(actual, right, mma.opcode)
        ends = bool(np.isin(right, (MOST, -MOST - 1)).any())
        saturated += mma.saturates and ends
        wrapped += not mma.saturates and bool((right[0] < 0).any())
    assert saturated >= 20 and wrapped >= 20  # sums exceeded 32 bits in all shapes


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8k64.row.col.s32.b1.b1.s32.xor.popc",
        "mma.sync.aligned.m16n8k64.col.col.s32.s4.s4.s32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s2.s2.s32",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32",
    ],
)
def test_opcodes_outside_the_ptx_isa_are_unsupported(opcode: str) -> None:
    text = program([Mma((16, 8, 64), "s4", "s4")])
    changed = text.replace("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", opcode)
    assert changed != text
    run = run_ptx(changed, 128, np.zeros((10, 32), np.uint64))
    assert run.status == "unsupported" and opcode.split(".row")[0].split(".col")[0] in run.reason
