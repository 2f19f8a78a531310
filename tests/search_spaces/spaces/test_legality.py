"""Checking legality with look-up tables agrees with the rules, for any limit on the size of a rule's table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_spaces import Way, paths, raw, spaces, taking

from search_spaces.spaces.counting.constraints import Constraints
from search_spaces.spaces.legality import Legality
from search_spaces.spaces.parameters import Parameter, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.space import Space


def of(space: Space, parameters: tuple[Parameter, ...] | None = None) -> Legality:
    constraints = Constraints(parameters or space.parameters, space.attributes)
    return Legality(space.parameters, constraints, space.rules)


def codes(space: Space) -> np.ndarray:
    """Return the codes of all combinations of values."""
    return np.array([[p.code(row[p.name]) for p in space.parameters] for row in raw(space)], dtype=np.int64)


@paths
@given(space=spaces(), seed=st.integers(0, 2**32))
def test_legality_agrees_with_the_rules(way: Way, space: Space, seed: int) -> None:
    rows = np.random.default_rng(seed).permutation(codes(space))
    with taking(way):
        judged = of(space)(rows)
    values = [{p.name: p.values[code] for p, code in zip(space.parameters, row, strict=True)} for row in rows.tolist()]
    assert judged.tolist() == [not space.explain(v) for v in values]


def test_no_rows_are_judged() -> None:
    space = Space("s", [ordinal("m", (1, 2))], [], [Rule("r", lambda m: m > 1, "")])
    assert of(space)(np.zeros((0, 1), dtype=np.int64)).tolist() == []


def test_omitted_values_are_illegal() -> None:
    space = Space("s", [ordinal("m", (1, 2, 4)), ordinal("n", (1, 2))], [], [Rule("r", lambda m, n: m > n, "")])
    parameters = (ordinal("m", (1, 4)), space.parameters[1])
    assert of(space, parameters)(codes(space)).tolist() == [False, False, False, False, True, True]


def test_small_rules_are_looked_up() -> None:
    evaluated: list[int] = []

    def allows(m: np.ndarray) -> np.ndarray:
        evaluated.append(len(m))
        return np.asarray(m <= 3)

    space = Space("s", [ordinal("n", (0, 1, 2))], [Attribute("m", lambda n: 2 * n)], [Rule("r", allows, "")])
    legal = of(space)
    assert evaluated == [3]  # the rule is evaluated once for each value of m
    assert legal(codes(space)).tolist() == [True, True, False]
    assert evaluated == [3]
