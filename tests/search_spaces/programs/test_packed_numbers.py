"""Programs with packed 4-bit numbers, products of bytes, or packed matrices give correct kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.block_scaling import FP4
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import E4M3
from search_spaces.layouts.memory_order import FRAGMENT_BYTES, FRAGMENT_WORDS, MemoryOrder
from search_spaces.programs.builder import Input, Output, program
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.template import template
from search_spaces.tile_operators.packed_weights import unpack_int4


@program(
    w=Input("n words", "i32"), scale=Input("n groups", "e4m3"), out=Output("n k", "f32"), less=Output("n k", "f32")
)
def fours(p: Any, w: Any, scale: Any, out: Any, less: Any) -> None:
    """Unpack 4-bit numbers to two outputs, element by element, without a product."""
    n, words = w.shape
    (i,) = p.blocks((n,), (8,))
    tile = p.load(p.window(w, (i, 0), (8, words)))
    factor = p.load(p.window(scale, (i, 0), (8, words // 2)))
    p.store(p.fp4(tile, factor, to="bf16").cast("f32"), p.window(out, (i, 0), (8, 8 * words)))
    p.store(p.nibbles(tile, zero=3, times=16).cast("f32"), p.window(less, (i, 0), (8, 8 * words)))


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_single_packed_elements_are_loaded(gpu: str) -> None:
    p, chip = problem(fours, n=11, words=16, groups=8, k=128), device(gpu)
    own, rng = template(fours), np.random.default_rng(1)
    w = rng.integers(-(2**31), 2**31, (11, 16), dtype=np.int64).astype(np.int32)
    scale = rng.choice([0.5, 1.75, -3.0, 448.0], (11, 8)).astype(np.float32)
    actual, codes = p.expected({"w": w, "scale": E4M3.store(scale)})[0], unpack_int4(w)
    signed = np.where(codes > 7, -1.0, 1.0) * FP4[codes & 7]
    assert np.array_equal(actual["out"], signed * scale.repeat(16, axis=1) * 2.0**-14)
    assert np.array_equal(actual["less"], 16.0 * (codes - 3))
    for schedule in own.space(p, chip).sample(3, 1):
        assert outcome(p, own.kernel(p, schedule, chip)) == "ok", schedule


@program(x=Input("m k", "bf16"), w=Input("k n", "i8"), out=Output("m n", "f32"))
def bytes_by_columns(p: Any, x: Any, w: Any, out: Any) -> None:
    """Multiply by bytes that are contiguous along n, so that different k are in different lines of memory."""
    (m, k), n = x.shape, w.shape[1]
    i, j = p.blocks((m, n), (32, 32))
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(k, 32):
        factor = p.load(p.window(w, (at, j), (32, 32))).cast("f32").cast("bf16")
        acc.set(p.mma(p.load(p.window(x, (i, at), (32, 32))), factor, acc))
    p.store(acc, p.window(out, (i, j), (32, 32)))


def test_bytes_wait_in_the_ring_as_they_are_stored() -> None:
    p, chip = problem(bytes_by_columns, m=40, n=70, k=90), device("a100")
    staged = {s.name: s for s in choices_of(p).first.staged.values()}
    assert staged["w"].converted and staged["w"].loop is not None and not staged["x"].converted
    own = template(bytes_by_columns)
    for schedule in own.space(p, chip).sample(4, 1):
        assert outcome(p, own.kernel(p, schedule, chip)) == "ok", schedule


@pytest.mark.parametrize("order", [FRAGMENT_WORDS, FRAGMENT_BYTES, MemoryOrder(2, 2, ((0, 0), (1, 0)))])
def test_orders_are_permutations(order: MemoryOrder) -> None:
    shape = 2 * order.rows, 3 * order.columns
    matrix = np.arange(shape[0] * shape[1]).reshape(shape)
    packed = order.pack(matrix)
    assert packed.shape == order.shape(*shape) and np.array_equal(np.sort(packed, axis=None), matrix.reshape(-1))
    assert np.array_equal(order.unpack(packed, shape), matrix)
    row, column = order.code("r", "c")
    for r, c in ((0, 0), (order.rows + 1, order.columns - 1), (shape[0] - 1, shape[1] - 1)):
        positions = (eval(code.replace("/", "//"), {"r": r, "c": c}) for code in (row, column))
        assert tuple(positions) == tuple(order.position(r, c))


def test_invalid_uses_of_packed_numbers_are_rejected() -> None:
    def refused(match: str, body: Any) -> None:
        tile_program = program(w=Input("n words", "i32"), out=Output("n words", "i32"))(body)
        with pytest.raises(ProgramError, match=match):
            choices_of(problem(tile_program, n=32, words=24))

    def loaded(p: Any, w: Any, out: Any) -> Any:
        (i,) = p.blocks((w.shape[0],), (16,))
        return i, p.load(p.window(w, (i, 0), (16, 24)))

    def twelve(p: Any, w: Any, out: Any) -> None:
        i, _ = loaded(p, w, out)
        p.nibbles(p.load(p.window(w, (i, 0), (16, 12))))

    def reversed_numbers(p: Any, w: Any, out: Any) -> None:
        p.nibbles(loaded(p, w, out)[1], range(3, 0, -1))

    def times(p: Any, w: Any, out: Any) -> None:
        p.nibbles(loaded(p, w, out)[1], times=2)

    def scales(p: Any, w: Any, out: Any) -> None:
        p.fp4(loaded(p, w, out)[1], p.full((16, 1), 1.0))

    def half_a_tile(p: Any, w: Any, out: Any) -> None:
        i, _ = loaded(p, w, out)
        p.load(p.window(p.ordered(w, FRAGMENT_WORDS), (i, 4), (16, 8)))

    def transposed(p: Any, w: Any, out: Any) -> None:
        i, _ = loaded(p, w, out)
        p.load(p.window(p.ordered(w, FRAGMENT_WORDS), (0, i), (8, 16), turned=True))

    def results(p: Any, w: Any, out: Any) -> None:
        p.ordered(out, FRAGMENT_WORDS)

    for match, body in (
        ("multiple of 8", twelve), ("range", reversed_numbers), ("1 or 16", times), ("scale", scales),
        ("whole tiles", half_a_tile), ("packed", transposed), ("out", results),
    ):  # fmt: skip
        refused(match, body)
