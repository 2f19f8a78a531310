"""For each rule, an invalid tile program gives an error that names the line, the operation and the rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import I32
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.builder import Builder, InOut, Input, Output, program, wg_map
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.language.values import State, Tile
from search_spaces.programs.problem import problem_type
from search_spaces.programs.template import template

SIZES = {"m": 32, "n": 32, "k": 32}
ARRAYS = {"a": Input("m k", "f16"), "b": Input("k n", "f16"), "out": Output("m n", "f32")}


def refused(body: Callable[[Builder, Array, Array, Array], None]) -> str:
    tile_program = program(**ARRAYS)(body)
    with pytest.raises(ValueError) as error:
        reason = template(tile_program).why_not(problem_type(tile_program)(**SIZES), device("a100"))
        assert reason is not None, "the program was not rejected"
        raise ProgramError(reason)
    return str(error.value)


def test_the_language() -> None:
    def shapes(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.mma(p.zeros((32, 16), "f16"), p.zeros((32, 16), "f16"))

    def types(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.store(p.zeros((32, 32), "f16"), p.window(out, (0, 0), (32, 32)))

    def arithmetic(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.load(p.window(a, (0, 0), (32, 32))) + 1.0

    def branch(p: Builder, a: Array, b: Array, out: Array) -> None:
        if p.zeros((32, 32)):
            pass

    def stretched(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.broadcast(p.zeros((2, 32)), dim=0, size=33)

    def read_output(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.load(p.window(out, (0, 0), (32, 32)))

    def no_tile(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.transpose(p.window(a, (0, 0), (32, 32)))  # type: ignore[arg-type]

    def a_number(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.broadcast(1.0, dim=0, size=32)  # type: ignore[arg-type]

    def no_window(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.load(a)  # type: ignore[arg-type]

    def left_early(p: Builder, a: Array, b: Array, out: Array) -> None:
        for _ in p.steps(32, 32):
            break

    assert "test_refusals.py:" in refused(shapes) and "(RFC, tile_mma)" in refused(shapes)
    assert "store: the value is f16, but out is f32" in refused(types)
    assert 'use .cast("f32")' in refused(arithmetic)
    assert "if: a tile" in refused(branch)
    assert "33: use a multiple of dimension 0 of 2x32 (RFC, broadcast_size)" in refused(stretched)
    assert "out is an Output" in refused(read_output)
    assert "transpose: expected a tile, not a window of a" in refused(no_tile)
    assert "broadcast: expected a tile, not 1.0" in refused(a_number)
    assert "load: expected a window, not a" in refused(no_window)
    assert "break" in refused(left_early)


def test_types_and_shapes_of_operations() -> None:
    def whole_number(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.rows(0, 32) + 0.5

    def truths(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.zeros((32, 1)) & p.zeros((32, 1))

    def kind(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.reduction("addf", p.zeros((32, 32)), dim=1)

    def kind_of_floats(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.reduction("xori", p.zeros((32, 32)), dim=1)

    def groups(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.reduction("add", p.zeros((32, 32)), dim=0, size=5)

    def state(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.state(p.zeros((32, 32))).set(p.zeros((32, 16)))

    def map_of_the_user(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.mma(p.zeros((32, 32), "f16"), p.zeros((32, 32), "f16"), map=wg_map([3, 2], [16, 16]))

    def atomic(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.atomic_rmw("addf", p.zeros((32, 32)), p.window(out, (0, 0), (32, 32)))

    def locality(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.prefetch(p.window(a, (0, 0), (32, 32)), locality=4)

    def rounded(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.mma(p.zeros((32, 32), "f16"), p.zeros((32, 32), "f16"), tf32=True)

    def added(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.mma(p.zeros((32, 32), "i8"), p.zeros((32, 32), "i8"), p.zeros((32, 32)))

    assert "tf32=True with operands of f16" in refused(rounded)
    assert "c is 32x32 f32" in refused(added)
    assert "operand 0.5 with an i32 tile" in refused(whole_number)
    assert "truth values" in refused(truths)
    assert "unknown kind addf: use add, mul" in refused(kind)
    assert "xori supports i32, not f32" in refused(kind_of_floats)
    assert "5: use a divisor of dimension 0 of 32x32 (RFC, reduction_size)" in refused(groups)
    assert "the state is 32x32 f32, but the value 32x16 f32" in refused(state)
    assert "one must divide the other" in refused(map_of_the_user)
    assert "declare it as an InOut" in refused(atomic)
    assert "invalid locality 4: use 0 to 3 (RFC, prefetch_tile)" in refused(locality)


def test_windows_at_positions_from_a_tile_are_restricted() -> None:
    def types(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.window(a, (p.zeros((32, 1)), 0), (32, 32))

    def of_columns(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.window(a, (0, p.columns(0, 32)), (32, 32))

    def output(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.store(p.zeros((32, 32)), p.window(out, (p.rows(0, 32), 0), (32, 32)))

    def moved(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.window(a, (p.rows(0, 32), 0), (32, 32)).move(0, 32)

    def far(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.prefetch(p.window(a, (p.rows(0, 32), 0), (32, 32)))

    def padded(p: Builder, a: Array, b: Array, out: Array) -> None:
        i, j = p.blocks((32, 32), (64, 32))
        rows = p.load(p.window(a, (p.load(p.window(numbers(a), (i, 0), (64, 1))), 0), (64, 32))).cast("f32")
        p.store(p.broadcast(p.reduction("add", rows, dim=0), dim=0, size=64), p.window(out, (i, j), (64, 32)))

    def numbers(a: Array) -> Array:
        return Array("a", "input", I32, a.sizes, a.full)

    assert "32x1 f32: use 32x1 i32" in refused(types)
    assert "a tile of row numbers" in refused(of_columns)
    assert "declare it as an InOut" in refused(output)
    assert "cannot move" in refused(moved)
    assert "cannot be prefetched" in refused(far)
    assert "add includes unknown values in rows" in refused(padded)


def test_stores_past_the_end() -> None:
    @program(ids=Input("m", "i32"), x=Input("m n", "f32"), out=InOut("k n", "f32"))
    def scattered(p: Builder, ids: Array, x: Array, out: Array) -> None:
        i, j = p.blocks(x.shape, (64, 32))
        rows = p.load(p.window(ids, (i, 0), (64, 1), column=True))
        p.store(p.load(p.window(x, (i, j), (64, 32))), p.window(out, (rows, j), (64, 32)))

    reason = template(scattered).why_not(problem_type(scattered)(m=40, n=32, k=50), device("a100"))
    assert reason is not None and "their array are 0" in reason
    assert "padding=-1" in reason


def test_the_verifier() -> None:
    def stored(p: Builder, value: Tile | State, out: Array) -> None:
        i, j = p.blocks((32, 32), (32, 32))
        p.store(value, p.window(out, (i, j), (32, 32)))

    def not_stored(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.blocks((32, 32), (32, 32))
        p.load(p.window(a, (0, 0), (32, 32)))

    def after_its_loop(p: Builder, a: Array, b: Array, out: Array) -> None:
        for _ in p.steps(32, 32):
            value = p.load(p.window(a, (0, 0), (32, 32))).cast("f32")
        stored(p, value, out)

    assert "out is never stored" in refused(not_stored)
    assert "a value from inside a loop" in refused(after_its_loop)


def test_padding() -> None:
    """Tiles of 48 reach beyond arrays of size 32, so their loads need padding."""

    def tile(p: Builder, a: Array, padding: float = 0.0) -> Tile:
        i, _ = p.blocks((32, 32), (32, 32))
        return p.load(p.window(a, (i, 0), (32, 48)), padding=padding).cast("f32")

    def store(p: Builder, value: Tile, out: Array) -> None:
        p.store(value, p.window(out, (0, 0), value.shape))

    def maximum(p: Builder, a: Array, b: Array, out: Array) -> None:
        store(p, p.reduction("maximumf", tile(p, a), dim=1), out)

    def maximum_of_padding(p: Builder, a: Array, b: Array, out: Array) -> None:
        store(p, p.reduction("maximumf", tile(p, a, -float("inf")) * 2.0 - 1.0, dim=1), out)

    def maximum_of_masked(p: Builder, a: Array, b: Array, out: Array) -> None:
        store(p, p.reduction("maximumf", p.where(p.columns(0, 48) < 32, tile(p, a), -float("inf")), dim=1), out)

    def masked_too_late(p: Builder, a: Array, b: Array, out: Array) -> None:
        store(p, p.reduction("maximumf", p.where(p.columns(0, 48) < 40, tile(p, a), -float("inf")), dim=1), out)

    def sum_of_shifted(p: Builder, a: Array, b: Array, out: Array) -> None:
        store(p, p.reduction("add", tile(p, a) + 1.0, dim=1), out)

    def product(p: Builder, a: Array, b: Array, out: Array) -> None:
        right = p.load(p.window(b, (0, 0), (48, 32)), padding=1.0)
        store(p, p.mma((tile(p, a) + 1.0).cast("f16"), right), out)

    assert "maximumf includes 0 in columns outside of the array (loaded at test_refusals.py:" in refused(maximum)
    assert "load with padding=-inf, or use p.where with p.columns" in refused(maximum)
    for right in (maximum_of_padding, maximum_of_masked):
        with pytest.raises(AssertionError, match="the program was not rejected"):
            refused(right)
    assert "maximumf includes unknown values in columns" in refused(masked_too_late)
    assert "add includes 1 in columns" in refused(sum_of_shifted)
    assert "neither operand is known to be 0 along k outside of the arrays" in refused(product)


def test_maps() -> None:
    def tile(p: Builder, a: Array, layout: WgMap) -> Tile:
        i, j = p.blocks((32, 32), (32, 32))
        return p.load(p.window(a, (i, j), (32, 32), map=layout)).cast("f32")

    def reduction(p: Builder, a: Array, b: Array, out: Array) -> None:
        value = p.reduction("add", tile(p, a, wg_map([2, 2], [16, 16])), dim=1, map=wg_map([4, 1], [8, 1]))
        p.store(value, p.window(out, (0, 0), (32, 1)))

    def of_a_product(p: Builder, a: Array, b: Array, out: Array) -> None:
        i, j = p.blocks((32, 32), (32, 16))
        product = p.mma(p.load(p.window(a, (i, 0), (32, 32))), p.load(p.window(b, (0, j), (32, 16))))
        value = p.convert_layout(product * 2.0, wg_map([4, 4], [8, 4]))
        p.store(value, p.window(out, (i, j), (32, 16)))

    def conversion(p: Builder, a: Array, b: Array, out: Array) -> None:
        value = p.convert_layout(tile(p, a, wg_map([2, 2], [16, 16])), wg_map([2, 1], [16, 32]))
        p.store(value, p.window(out, (0, 0), (32, 32)))

    assert "reduction" in refused(reduction) or "reduce: the source has sg_layout [2, 2]" in refused(reduction)
    assert "(RFC, wg_map; the operands' maps are at test_refusals.py:" in refused(reduction)
    assert "the source has 4 subgroups but the result has 2" in refused(conversion)
    assert "wg_map: the map has 16 subgroups" in refused(of_a_product)
    assert "32x16 result of the mma at test_refusals.py:" in refused(of_a_product)


def test_conditions_and_shared_tiles() -> None:
    def tile(p: Builder, a: Array) -> Tile:
        p.blocks((32, 32), (32, 32))
        return p.load(p.window(a, (0, 0), (32, 32))).cast("f32")

    def moved_outside(p: Builder, a: Array, b: Array, out: Array) -> None:
        i, _ = p.blocks((32, 32), (16, 32))
        window = p.window(a, (0, 0), (16, 16))
        with p.when(i):
            window.move(16, 0)
        p.store(p.load(window).cast("f32"), p.window(out, (0, 0), (16, 16)))

    def moved_twice(p: Builder, a: Array, b: Array, out: Array) -> None:
        value, window = tile(p, a), p.window(a, (0, 0), (8, 8))
        for at in p.steps(32, 8):
            with p.when(at % 16):
                p.prefetch(window)
                window.move(0, 8)
            window.move(0, 8)
        p.store(value, p.window(out, (0, 0), (32, 32)))

    def at_any_time(p: Builder, a: Array, b: Array, out: Array) -> None:
        value, window = tile(p, a), p.window(a, (0, 0), (8, 8))
        for at in p.steps(32, 8):
            with p.when(at % 12):
                p.prefetch(window)
                window.move(0, 8)
        p.store(value, p.window(out, (0, 0), (32, 32)))

    def used_after(p: Builder, a: Array, b: Array, out: Array) -> None:
        i, _ = p.blocks((32, 32), (16, 32))
        with p.when(i):
            value = p.load(p.window(a, (0, 0), (16, 16))).cast("f32")
        p.store(value, p.window(out, (0, 0), (16, 16)))

    def on_a_tile(p: Builder, a: Array, b: Array, out: Array) -> None:
        with p.when(tile(p, a)):  # type: ignore[arg-type]
            pass

    def beyond(p: Builder, a: Array, b: Array, out: Array) -> None:
        value, shared_tile = tile(p, a), p.shared(32, 32, "f32")
        p.store(value, p.window(shared_tile, (0, 8), (32, 32)))
        p.store(value, p.window(out, (0, 0), (32, 32)))

    def narrow(p: Builder, a: Array, b: Array, out: Array) -> None:
        p.shared(32, 32, "i8")

    assert "when: a condition outside of loops" in refused(moved_outside)
    assert "test_refusals.py:" in refused(moved_outside)
    assert "when: the loop also moves" in refused(moved_twice)
    assert "use at % n, with n a multiple of the step 8" in refused(at_any_time)
    assert "a value from inside a condition" in refused(used_after)
    assert "use an index, such as at % 128" in refused(on_a_tile)
    assert "beyond shared_1" in refused(beyond)
    assert "use f16, bf16, f32 or i32" in refused(narrow)
