"""Neighbours, mutants and children are always legal, reach every schedule, and are reproducible for a seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.arrays import IntArray
from search_spaces.spaces import neighbourhood
from search_spaces.spaces.parameters import Value, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space


def tiles(limit: int = 4096, layouts: int = 3) -> Space:
    """Return a space of two tile sizes and a layout. The product is limited, and the first size divides the second."""
    sizes = (8, 16, 32, 64, 128)
    return Space(
        "tiles",
        [ordinal("m", sizes), ordinal("n", sizes), categorical("layout", [f"layout {i}" for i in range(layouts)])],
        [Attribute("area", lambda m, n: m * n)],
        [
            Rule("area", lambda area: area <= limit, "{area} is too large"),
            Rule("divides", lambda m, n: n % m == 0, "{m} does not divide {n}"),
        ],
    )


def schedule(m: int, n: int, layout: str) -> Schedule:
    return Schedule("tiles", (("m", m), ("n", n), ("layout", layout)))


def differing(a: Schedule, b: Schedule) -> list[str]:
    return [name for name in a if a[name] != b[name]]


seeds = st.integers(0, 2**32)


@given(seeds, st.floats(0.01, 1.0))
def test_mutants_are_legal_and_new(seed: int, rate: float) -> None:
    space, rng = tiles(), np.random.default_rng(seed)
    parents = space.sample(12, seed)
    for parent, mutant in zip(parents, space.mutate(parents, rng, rate), strict=True):
        assert space.explain(mutant) == []
        assert differing(parent, mutant)


@given(seeds)
def test_children_are_legal_and_mix_their_parents(seed: int) -> None:
    space, rng = tiles(), np.random.default_rng(seed)
    a, b = space.sample(12, seed), space.sample(12, seed + 1)
    for first, second, child in zip(a, b, space.crossover(a, b, rng), strict=True):
        assert space.explain(child) == []
        assert all(child[name] in (first[name], second[name]) for name in child)
        assert child == first or (differing(child, first) and differing(child, second))


@given(seeds)
def test_neighbours_are_legal_different_and_near(seed: int) -> None:
    space = tiles()
    (start,) = space.sample(1, seed)
    neighbours = space.neighbours(start)
    assert len(set(neighbours)) == len(neighbours) and start not in neighbours
    for near in neighbours:
        assert space.explain(near) == []
        changed = differing(start, near)
        assert len(changed) == 1 or changed == ["m", "n"]  # rule "divides" depends on m and n
        for p in space.parameters:
            assert near[p.name] == start[p.name] or near[p.name] in p.neighbours(start[p.name])


def test_neighbours_are_exactly_those_that_the_rules_allow() -> None:
    neighbours = tiles().neighbours(schedule(16, 32, "layout 0"))
    expected = [
        (8, 32, "layout 0"), (32, 32, "layout 0"), (16, 16, "layout 0"), (16, 64, "layout 0"),
        (16, 32, "layout 1"), (16, 32, "layout 2"),
        (8, 16, "layout 0"), (8, 64, "layout 0"), (32, 64, "layout 0"),
    ]  # fmt: skip
    assert neighbours == [schedule(*values) for values in expected]


def test_moves_in_two_tied_parameters_are_omitted_if_single_moves_suffice() -> None:
    neighbours = tiles(layouts=neighbourhood.FEW_NEIGHBOURS + 1).neighbours(schedule(16, 32, "layout 0"))
    assert len(neighbours) == 4 + neighbourhood.FEW_NEIGHBOURS
    assert all(len(differing(schedule(16, 32, "layout 0"), near)) == 1 for near in neighbours)


def test_two_tied_parameters_move_together_if_neither_can_alone() -> None:
    values = (1, 2, 3)
    same = Rule("same", lambda a, b: a == b, "a and b differ")
    space = Space("diagonal", [ordinal("a", values), ordinal("b", values)], [], [same])
    neighbours = space.neighbours(Schedule("diagonal", (("a", 2), ("b", 2))))
    assert [n.values for n in neighbours] == [{"a": 1, "b": 1}, {"a": 3, "b": 3}]


def test_a_limit_spreads_over_all_neighbours() -> None:
    space, start = tiles(), schedule(16, 32, "layout 0")
    everything = space.neighbours(start)
    assert space.neighbours(start, limit=3) == [everything[0], everything[3], everything[6]]
    assert space.neighbours(start, limit=99) == everything
    assert space.neighbours(start, limit=0) == []


def test_parents_are_returned_if_no_other_schedule_is_legal() -> None:
    only = Rule("only", lambda a, b: (a == 2) & (b == 1), "no")
    space = Space("point", [ordinal("a", (1, 2)), ordinal("b", (1, 2))], [], [only])
    parents = space.sample(1, seed=0) * 3
    rng = np.random.default_rng(0)
    assert space.mutate(parents, rng) == parents
    assert space.crossover(parents, parents, rng) == parents
    assert space.neighbours(parents[0]) == []


def test_a_space_of_one_configuration_has_no_mutants() -> None:
    space = Space("point", [ordinal("a", (1,))])
    parents = space.sample(1, seed=0)
    assert space.mutate(parents, np.random.default_rng(0)) == parents


def test_moves_follow_the_generator() -> None:
    space, parents = tiles(), tiles().sample(10, seed=3)
    once, again, other = (space.mutate(parents, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert once == again != other
    children = [space.crossover(parents, parents[::-1], np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert children[0] == children[1] != children[2]


def test_a_higher_rate_changes_more() -> None:
    parameters = [ordinal(f"p{i}", range(8)) for i in range(20)]
    space = Space("free", parameters)
    parents = space.sample(50, seed=0)
    changed = []
    for rate in (0.01, 0.5, 1.0):
        mutants = space.mutate(parents, np.random.default_rng(0), rate)
        changed.append(np.mean([len(differing(p, m)) for p, m in zip(parents, mutants, strict=True)]))
    assert 1.0 <= changed[0] < 1.5 and 8 < changed[1] < 12 and changed[2] == 20


def test_no_parents_give_no_children() -> None:
    rng = np.random.default_rng(0)
    assert tiles().mutate([], rng) == [] and tiles().crossover([], [], rng) == []


def test_invalid_requests_are_rejected() -> None:
    space, rng = tiles(), np.random.default_rng(0)
    parents = space.sample(2, seed=0)
    for rate in (0.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="mutation rate"):
            space.mutate(parents, rng, rate)
    with pytest.raises(ValueError, match="not 2 and 1"):
        space.crossover(parents, parents[:1], rng)
    foreign: dict[str, Value] = {"m": 16, "n": 16, "layout": "other"}
    with pytest.raises(ValueError, match="parameter layout cannot be 'other'"):
        space.neighbours(Schedule("tiles", tuple(foreign.items())))


def test_legality_is_checked_in_batches() -> None:
    batch_sizes: list[int] = []

    def legal(codes: IntArray) -> np.ndarray:
        batch_sizes.append(len(codes))
        return np.asarray(codes[:, 0] < 3)

    parents = np.zeros((120, 1), dtype=np.int64)
    neighbourhood.mutate([ordinal("m", (16, 32, 64, 128))], parents, np.random.default_rng(0), 0.15, legal)
    assert len(batch_sizes) < 10 and max(batch_sizes) == 120 * neighbourhood.TRIES


def test_proposals_stay_in_the_domain() -> None:
    seen: list[IntArray] = []

    def legal(codes: IntArray) -> np.ndarray:
        seen.append(codes)
        return np.zeros(len(codes), dtype=bool)

    parameters = tiles().parameters
    neighbourhood.mutate(parameters, np.zeros((5, 3), dtype=np.int64), np.random.default_rng(0), 0.5, legal)
    codes = np.concatenate(seen)
    assert codes.min() >= 0 and all(codes[:, i].max() < len(p.values) for i, p in enumerate(parameters))
