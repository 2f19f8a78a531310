"""Atomics that return previous values.

The tests cover emulated results, queues that blocks fill in any order, and results that depend on the order.
"""

from __future__ import annotations

import numpy as np
import pytest
from program_outputs import outputs

from autosched.programs.loading import problem
from measurements.trials.comparison import check
from search_spaces.programs.builder import Builder, InOut, Input, Output, Program, program
from search_spaces.programs.language.functions import ATOMICS, REDUCTIONS
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.problem import ProgramProblem

CASES = [(kind, type_) for kind, row in ATOMICS.items() for type_ in row.types]


@pytest.mark.parametrize(("kind", "type_"), CASES)
def test_every_atomic_returns_the_old_value(kind: str, type_: str) -> None:
    def body(p: Builder, x: Array, table: Array, old: Array) -> None:
        i, j = p.blocks(x.shape, (4, 32))
        before = p.atomic_rmw(kind, p.load(p.window(x, (i, j), (4, 32))), p.window(table, (i, j), (4, 32)))
        p.store(before, p.window(old, (i, j), (4, 32)))

    tile_program = program(x=Input("m n", type_), table=InOut("m n", type_), old=Output("m n", type_))(body)
    tile_program = Program(f"old_{kind}_{type_}", *list(vars(tile_program).values())[1:])
    inputs, seed = problem(tile_program, m=9, n=50).random_inputs(1), CASES.index((kind, type_))
    actual = outputs(
        tile_program, ("t4", "a100", "h100", "b200")[seed % 4] if type_ != "bf16" else "a100", inputs, seed, m=9, n=50
    )
    assert np.array_equal(actual["old"], inputs["table"])
    if type_ == "i32" and kind in ("maxs", "xori", "addi"):
        joined = REDUCTIONS[ATOMICS[kind].reduction].on_numpy(
            np.stack([inputs["table"], inputs["x"]]).astype(np.int64), axis=0
        )
        assert np.array_equal(actual["table"], joined)


def queue(unordered: bool, squares: bool = False) -> Program:
    def body(p: Builder, x: Array, count: Array, out: Array) -> None:
        """Append the positive numbers of x, or their squares, to out."""
        (i,) = p.blocks(x.shape, (64,))
        tile = p.load(p.window(x, (0, i), (1, 64)))
        keep = tile > 0.0
        counter = p.window(count, p.where(keep, p.columns(0, 64) * 0, -1), (1, 64))
        slot = p.atomic_add(p.full((1, 64), 1, "i32"), counter)
        p.store(tile * tile if squares else tile, p.window(out, p.where(keep, slot, -1), (1, 64)))

    tile_program = program(
        x=Input("n", "f32"), count=InOut("one", "i32"), out=InOut("slots", "f32", unordered=unordered)
    )(body)  # fmt: skip
    return Program(f"queue_{unordered}_{squares}", *list(vars(tile_program).values())[1:])


def of_queue(unordered: bool) -> tuple[ProgramProblem, dict[str, np.ndarray]]:
    p = problem(queue(unordered), n=200, one=1, slots=300)
    empty = {"count": np.array([3], np.int32), "out": np.full(300, -5.0, np.float32)}
    return p, {**p.random_inputs(4), **empty}


@pytest.mark.parametrize("where", ["t4", "h100"])
def test_a_queue_holds_the_same_in_any_order(where: str) -> None:
    p, inputs = of_queue(True)
    actual = outputs(p.program, where, inputs, 2, **p.sizes)
    expected = np.sort(inputs["x"][inputs["x"] > 0])
    assert actual["count"].item() == 3 + expected.size
    assert np.array_equal(np.sort(actual["out"][3 : 3 + expected.size]), expected)
    assert (actual["out"][:3] == -5).all() and (actual["out"][3 + expected.size :] == -5).all()


def test_a_queue_with_a_missing_element_is_wrong() -> None:
    p, inputs = of_queue(True)
    (right, _), counted = p.expected(inputs), p.expected(inputs)[0]["count"]
    out, count = right["out"].astype(np.float32), counted.astype(np.int32)
    assert check(p, inputs, {"out": out[::-1].copy(), "count": count}).ok
    out[5] = out[4]
    assert not check(p, inputs, {"out": out, "count": count}).ok
    assert not check(p, inputs, {"out": right["out"].astype(np.float32), "count": count + 1}).ok


@pytest.mark.parametrize("largest", [1.8446743e19, 1.2676506e30, 1e18, np.inf, np.nan])
def test_elements_of_a_queue_are_compared_next_to_an_element_with_a_large_bound(largest: float) -> None:
    """A square near the largest float has an infinite error bound. A queue's other elements must still be compared."""
    p = problem(queue(True, squares=True), n=4, one=1, slots=4)
    x = np.array([1, 2, 3, largest], np.float32)
    inputs = {"x": x, "count": np.zeros(1, np.int32), "out": np.zeros(4, np.float32)}
    appended = x[x > 0]
    with np.errstate(over="ignore"):
        right = np.array([*appended * appended, *np.zeros(4 - appended.size)], np.float32)

    def is_right(out: np.ndarray) -> bool:
        return check(p, inputs, {"out": out, "count": np.array([appended.size], np.int32)}).ok

    assert is_right(right) and is_right(right[::-1])
    for position, value in ((2, 7.0), (3, 1e3)):
        wrong = right.copy()
        wrong[position] = value
        assert not is_right(wrong)
    assert not is_right(np.full(4, 7.0, np.float32))


def test_an_array_of_undetermined_order_is_rejected() -> None:
    p, inputs = of_queue(False)
    with pytest.raises(ProgramError, match=r"test_old_values\.py:\d+: atomic_rmw: out .* order"):
        p.expected(inputs)


def test_a_value_that_all_orders_give_is_not_rejected() -> None:
    """In any order, the block that adds last obtains the complete sum, so the maximum does not depend on the order."""

    def body(p: Builder, x: Array, total: Array, most: Array) -> None:
        (i,) = p.blocks(x.shape, (64,))
        block_sum = p.reduction("add", p.load(p.window(x, (0, i), (1, 64))), 1)
        after = p.atomic_add(block_sum, p.window(total, (0, 0), (1, 1))) + block_sum
        p.atomic_rmw("maxs", after, p.window(most, (0, 0), (1, 1)))

    tile_program = program(x=Input("n", "i32"), total=InOut("one", "i32"), most=InOut("two", "i32"))(body)
    zero = {"total": np.zeros(1, np.int32), "most": np.zeros(1, np.int32)}
    x = np.arange(300, dtype=np.int32)
    actual = outputs(tile_program, "a100", {"x": x, **zero}, 5, n=300, one=1, two=1)
    assert actual["most"].item() == actual["total"].item() == x.sum()


def test_only_vectors_are_unordered() -> None:
    with pytest.raises(ProgramError, match="only a vector"):
        InOut("m n", "f32", unordered=True)
