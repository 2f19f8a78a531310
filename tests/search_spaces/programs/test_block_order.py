"""The time model accounts for the order in which blocks with different run times are executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Input, Output, program
from search_spaces.programs.planning.block_order import (
    BACKWARD,
    BLOCK_ORDERS,
    FOLDED,
    FORWARD,
    ZIGZAG,
    imbalance,
    ordered,
    uneven,
)
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.template import template

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
A100 = device("a100")


@program(x=Input("m n", "f32"), out=Output("m", "f32"))
def sums_up_to_the_diagonal(p: Any, x: Any, out: Any) -> None:
    """Add up the elements of each row up to the end of the tile that contains the diagonal."""
    (i,) = p.blocks((x.shape[0],), (8,))
    total = p.state(p.zeros((8, 1)))
    for j in p.steps(p.minimum(i + 8, x.shape[1]), 8):
        total.set(total + p.reduction("add", p.load(p.window(x, (i, j), (8, 8))), dim=1))
    p.store(total, p.window(out, (i, 0), (8, 1), column=True))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("order", BLOCK_ORDERS)
def test_an_order_is_a_permutation(order: str, count: int) -> None:
    assert sorted(ordered(order, np.arange(count), count)) == list(range(count))


def test_folded_blocks_are_opposite_to_their_complement() -> None:
    order = ordered(FOLDED, np.arange(8), 8)
    assert set(order[:4] + order[4:]) == {7}


@pytest.mark.parametrize("order", BLOCK_ORDERS)
def test_each_order_computes_the_same(order: str) -> None:
    p, own = problem(sums_up_to_the_diagonal, m=53, n=53), template(sums_up_to_the_diagonal)
    schedule = next(s for s in own.space(p, A100).sample(60, 1) if s.values["block_order"] == order)
    assert outcome(p, own.kernel(p, schedule, A100)) == "ok"


def test_only_causal_attention_has_block_orders() -> None:
    for name, expected in (("causal_attention", True), ("full_attention", False)):
        example = load_program(f"{EXAMPLES / 'attention.py'}:{name}")
        p = problem(example, h=2, g=2, s=300, d=32)
        names = [parameter.name for parameter in template(example).space(p, A100).parameters]
        assert ("block_order" in names) == expected


def test_large_grids_are_sampled() -> None:
    example = load_program(f"{EXAMPLES / 'attention.py'}:causal_attention")
    of = uneven(choices_of(problem(example, h=1, g=1, s=2**30 - 1, d=64)).first)
    assert of is not None
    assert of.axis == 1
    assert len(of.iterations) <= 4096
    assert of.iterations[0] < of.iterations[-1]


def test_parts_balance_blocks() -> None:
    choice = choices_of(problem(sums_up_to_the_diagonal, m=800, n=800)).first  # 1 to 100 iterations
    unsplit, shared = (imbalance(choice, FORWARD, "row", 50, 1, parts) * 2 for parts in (1, 4))
    assert unsplit == pytest.approx(150 / 50.5)  # one SM executes the blocks of 50 and 100 iterations
    assert 2.0 < shared < 0.85 * unsplit


def test_blocks_that_share_long_tiles_are_balanced_by_their_order() -> None:
    choice = choices_of(problem(sums_up_to_the_diagonal, m=256, n=256)).first  # 1 to 32 iterations
    alone, as_many, fewer = (imbalance(choice, ZIGZAG, "row", 16, 3, *parts) for parts in ((1,), (2,), (2, 16)))
    assert alone == 1.0  # each SM executes 33 of the 528 iterations
    assert as_many > 1.1
    assert fewer == pytest.approx(33 / (3 * 528 / 48), rel=0.05)  # 16 of 32 tiles are shared by two blocks
    assert imbalance(choice, FORWARD, "row", 16, 3, 2, 16) > 1.1 * fewer


def test_the_imbalance_of_blocks_follows_from_their_order() -> None:
    example = load_program(f"{EXAMPLES / 'attention.py'}:causal_attention")
    choice = choices_of(problem(example, h=16, g=16, s=1024, d=64)).first
    of = uneven(choice)
    assert of is not None
    assert of.axis == 1
    assert of.iterations[0] < of.iterations[-1]
    one_each, two_each = (choice.trace.block_count // n for n in (1, 2))
    longest = of.iterations[-1] / of.mean
    assert imbalance(choice, FORWARD, "row", one_each, 1) == pytest.approx(longest)
    assert imbalance(choice, FOLDED, "column", two_each, 2) == 1.0
    assert imbalance(choice, FORWARD, "column", two_each, 2) > 1.2
    few = choice.trace.block_count // 8
    assert imbalance(choice, BACKWARD, "column", few, 1) < imbalance(choice, FORWARD, "column", few, 1)
