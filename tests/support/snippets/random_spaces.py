"""Small random spaces that can be enumerated, and settings that force each code path of counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Column, TextColumn
from search_spaces.spaces.counting import constraints, elimination, planning
from search_spaces.spaces.each import each
from search_spaces.spaces.parameters import Parameter, Value, categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

Way = tuple[int, int, float]  # values of RELATION_ROWS, CHUNK_ROWS, ROLLOUT_ROWS
MOST_CONFIGURATIONS = 400  # small, since tests enumerate all configurations in Python

_lengths = each(len)


def number(column: Column) -> IntArray:
    """Return a column of integers, or the lengths of a column of texts."""
    return np.asarray(_lengths(column)) if isinstance(column, TextColumn) else column


def mixed(columns: Mapping[str, Column], factors: tuple[int, ...], modulus: int) -> IntArray:
    numbers = [number(column) for column in columns.values()]
    total = sum(factor * n for n, factor in zip(numbers, factors, strict=False))
    return np.asarray(total % modulus)


def themselves(names: tuple[str, ...]) -> dict[str, str]:
    """Map each name to itself, for rules whose function takes ``**columns``."""
    return {name: name for name in names}


@st.composite
def spaces(draw: st.DrawFn, name: str = "toy", largest: int = 6) -> Space:
    """Draw a space of up to ``largest`` parameters of up to 4 values, with chained attributes and rules.

    A space has at most MOST_CONFIGURATIONS combinations of values. Rules exclude a random share of these combinations.
    Some spaces are stratified by one of the parameters.
    """
    parameters: list[Parameter] = []
    room = MOST_CONFIGURATIONS
    for i in range(draw(st.integers(1, largest))):
        most = min(4, room)
        if draw(st.booleans()):
            values = draw(st.lists(st.integers(-3, 9), min_size=1, max_size=most, unique=True))
            parameters.append(ordinal(f"p{i}", values))
        else:
            parameters.append(categorical(f"p{i}", ["x" * n for n in range(1, draw(st.integers(1, most)) + 1)]))
        room //= len(parameters[-1].values)
    columns = [p.name for p in parameters]

    def needs() -> tuple[str, ...]:
        return tuple(draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique=True)))

    factors = st.tuples(*[st.integers(-4, 4)] * 4)
    attributes = []
    for i in range(draw(st.integers(0, 4))):
        n, f, m = needs(), draw(factors), draw(st.integers(1, 12))
        attributes.append(Attribute(f"a{i}", lambda f=f, m=m, **c: mixed(c, f, m) - 2, names=themselves(n)))
        columns.append(f"a{i}")
    rules = []
    for i in range(draw(st.integers(0, 5))):
        n, f, m = needs(), draw(factors), draw(st.integers(2, 7))
        r = draw(st.integers(0, m - 1))
        rules.append(Rule(f"r{i}", lambda f=f, m=m, r=r, **c: mixed(c, f, m) != r, f"broken: {i}", names=themselves(n)))
    names = [p.name for p in parameters]
    stratifying = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
    stratified_by = stratifying.pop() if stratifying and draw(st.booleans()) else None
    return Space(
        name, parameters, draw(st.permutations(attributes)), rules, stratified_by=stratified_by, covering=stratifying
    )


def raw(space: Space) -> list[dict[str, Value]]:
    names = [p.name for p in space.parameters]
    return [dict(zip(names, row, strict=True)) for row in product(*(p.values for p in space.parameters))]


def legal(space: Space) -> set[str]:
    return {Schedule(space.name, tuple(v.items())).key() for v in raw(space) if not space.explain(v)}


@contextmanager
def taking(way: Way) -> Iterator[None]:
    """Set the limits in ``way`` so that counting takes a certain code path.

    The code paths are: no relations, small chunks, or a search at every step.
    """
    relation_rows, chunk_rows, rollout_rows = way
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraints, "RELATION_ROWS", relation_rows)
        patch.setattr(elimination, "CHUNK_ROWS", chunk_rows)
        patch.setattr(planning, "ROLLOUT_ROWS", rollout_rows)
        yield


paths = pytest.mark.parametrize(
    "way", [(1 << 17, 1 << 17, 3e4), (1 << 17, 2, 0.0), (0, 1 << 17, 3e4), (0, 3, 0.0), (9, 5, 0.0)], ids=str
)
