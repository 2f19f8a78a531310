"""The rows of the table of intrinsics for wgmma are right, as are the shared-memory layouts that wgmma accepts."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.hardware.devices import device
from search_spaces.hardware.requirements import Access, Refusal
from search_spaces.hardware.wgmma import SWIZZLES, alignment, box_layout, line_bytes, wgmma_row
from search_spaces.layouts.shared_layout import SharedLayout


@pytest.mark.parametrize("n", [8, 64, 200, 256])
def test_accumulators_agree_with_the_ptx_isa(n: int) -> None:
    """Compare with the PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", accumulator D."""
    row = wgmma_row("bf16", n)
    assert (row.name, row.c.registers, row.c.holders) == (f"wgmma_m64n{n}k16_bf16", n // 2, 1)
    rows, cols = row.c.positions
    thread, i = np.arange(128)[:, None], np.arange(n // 2)
    np.testing.assert_array_equal(rows, thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2 % 2))
    np.testing.assert_array_equal(cols, 8 * (i // 4) + thread % 4 * 2 + i % 2)


def test_f16_sums_are_packed_two_per_register_in_the_f32_layout() -> None:
    row, wide = wgmma_row("f16", 40, f16_sums=True), wgmma_row("f16", 40)
    assert (row.name, row.c.registers, row.results) == ("wgmma_m64n40k16_f16_f16", 10, 10)
    np.testing.assert_array_equal(row.c.positions, wide.c.positions)
    assert row.flops_per_cycle(device("h200")) == wide.flops_per_cycle(device("h200"))
    with pytest.raises(ValueError, match="only f16 products"):
        wgmma_row("bf16", 40, f16_sums=True)


def test_the_reference_is_a_matrix_product() -> None:
    rng = np.random.default_rng(0)
    row = wgmma_row("f16", 24)
    a, b = rng.integers(-8, 9, (64, 16)), rng.integers(-8, 9, (16, 24))
    c = rng.integers(-8, 9, (64, 24))
    np.testing.assert_array_equal(row.reference(a, b, c), a @ b + c)
    fine = 1 + 2.0**-9  # f16 represents this value exactly; bf16 does not
    ones = np.full((64, 16), fine), np.eye(16, 24), np.zeros((64, 24))
    assert (wgmma_row("f16", 24).reference(*ones)[:, :16] == fine).all()
    assert (wgmma_row("bf16", 24).reference(*ones)[:, :16] == 1).all()


def test_rows_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="wgmma multiplies f16, bf16, tf32, e4m3, e5m2, i8, not 'f64'"):
        wgmma_row("f64", 64)
    for n in (0, 12, 264):
        with pytest.raises(ValueError, match=f"n in 8 to 256 in steps of 8, not {n}"):
            wgmma_row("f16", n)
    assert wgmma_row("e4m3", 40).name == "wgmma_m64n40k32_e4m3"
    with pytest.raises(ValueError, match="wgmma of i8 needs n in 8, 24, and 16 to 256 in steps of 16, not 40"):
        wgmma_row("i8", 40)
    assert wgmma_row("f16", 64).why_not(device("h200")) is None
    assert wgmma_row("f16", 64).why_not(device("a100")) == "wgmma_m64n64k16_f16 needs sm_90a, but a100 is sm_80"


def physical(offsets: np.ndarray, swizzle: int) -> np.ndarray:
    """Return swizzled byte offsets (CUDA Driver API, CUtensorMapSwizzle).

    Up to three address bits from bit 7 upwards are XORed into the index of the 16-byte chunk, which begins at bit 4.
    """
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return offsets ^ ((offsets >> 7 & mask) << 4)


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("by_k", [True, False])
def test_boxes_written_by_tma_are_read(swizzle: int, side: str, by_k: bool) -> None:
    width, lines = line_bytes(swizzle) // 2, 64
    plain = np.arange(lines * width).reshape(lines, width) * 2
    transposed = by_k != (side == "a")
    shape = (width, lines) if transposed else (lines, width)
    layout = box_layout(shape, transposed, swizzle, 2)  # type: ignore[arg-type]
    in_lines = layout.offsets().T if transposed else layout.offsets()
    np.testing.assert_array_equal(in_lines * 2, physical(plain, swizzle))
    answer = wgmma_row("f16", 64).requirement(side, layout, 2)  # type: ignore[arg-type]
    assert answer == Access("boxes", layout.line_axis, 8)
    # The pattern repeats with the alignment as its period.
    period = alignment(swizzle)
    np.testing.assert_array_equal(physical(plain + period, swizzle), physical(plain, swizzle) + period)


@pytest.mark.parametrize(
    ("side", "text", "shape", "element_bytes", "reason"),
    [
        ("a", "identity", (64, 64), 2, "lines of 128 bytes as swizzle(3,3,3), with element (1, 0) at byte 144"),
        ("a", "swizzle(2,3,3)", (64, 64), 2, "lines of 128 bytes as swizzle(3,3,3)"),
        ("a", "swizzle(3,3,4)", (64, 64), 2, "puts it at byte"),
        (
            "a",
            "swizzle(3,3,3)",
            (60, 64),
            2,
            "8 lines at a time, but layout swizzle(3,3,3) of a 60x64 box of A has 60",
        ),
        ("b", "transpose+swizzle(3,3,3)", (128, 64), 2, "lines of 16, 32, 64 or 128 bytes"),
        ("a", "pad(8,1)", (64, 64), 2, "lines of 128 bytes as swizzle(3,3,3)"),
        ("a", "transpose+swizzle(3,2,3)", (32, 64), 4, "M-major"),
        ("b", "swizzle(3,2,3)", (64, 32), 4, "N-major"),
    ],
)
def test_other_layouts_are_rejected_with_the_reason(
    side: str, text: str, shape: tuple[int, int], element_bytes: int, reason: str
) -> None:
    row = wgmma_row("f16" if element_bytes == 2 else "tf32", 64)
    answer = row.requirement(side, SharedLayout.parse(text, shape), element_bytes)  # type: ignore[arg-type]
    assert isinstance(answer, Refusal) and reason in answer.reason
