"""Draw valid schedules parameter by parameter, with backtracking and restarts, without counting the whole space."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Columns
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

Step = tuple[Parameter, tuple[Attribute, ...], tuple[Rule, ...]]
STARTS = 12  # number of searches; if all fail, the space is counted and a schedule is drawn from it
MOST_BACK = 40  # limit of backtracking steps per search


def random_schedule(space: Space, seed: int) -> Schedule:
    """Return a random valid schedule. Every valid schedule is possible, but not equally probable.

    Raises:
        EmptySpace: There is none.
    """
    return random_start(space, seed) or space.valid.sample(1, seed)[0]


def random_start(space: Space, seed: int, fixed: Mapping[str, Value] = MappingProxyType({})) -> Schedule | None:
    """Return a random schedule with the ``fixed`` values, or None if the search finds none."""
    steps, rng = _steps(space), np.random.default_rng(seed)
    for _ in range(STARTS):
        codes = _start(steps, space.constants, rng, fixed)
        if codes is not None:
            return Schedule.from_json(space.name, {p.name: p.values[codes[p.name]] for p in space.parameters})
    return None


def _steps(space: Space) -> list[Step]:
    """Return each parameter with the attributes and rules that can be evaluated once it has a value."""
    known = set(space.constants)
    attributes, rules, steps = list(space.attributes), list(space.constraints), list[Step]()
    for parameter in space.parameters:
        known.add(parameter.name)
        new: list[Attribute] = []
        for attribute in attributes:  # ``attributes`` lists an attribute after those that it needs
            if known.issuperset(attribute.needs):
                new.append(attribute)
                known.add(attribute.name)
        attributes = [a for a in attributes if a not in new]
        decided = tuple(r for r in rules if known.issuperset(r.needs))
        rules = [r for r in rules if r not in decided]
        steps.append((parameter, tuple(new), decided))
    return steps


def _start(
    steps: list[Step], constants: Mapping[str, int], rng: np.random.Generator, fixed: Mapping[str, Value]
) -> dict[str, int] | None:
    """Return a code for each parameter, or None if the search gives up."""
    values = {p.name: p.values for p, _, _ in steps}
    codes: list[int] = []
    columns: list[dict[str, int]] = [dict(constants)]
    left: list[list[tuple[int, dict[str, int]]]] = []  # for each parameter, the remaining candidates
    back = 0
    while len(codes) < len(steps):
        if len(left) == len(codes):
            assigned = {p.name: code for (p, _, _), code in zip(steps, codes, strict=False)}
            candidates = _candidates(steps[len(codes)], assigned, columns[-1], values, rng)
            name = steps[len(codes)][0].name
            left.append([c for c in candidates if name not in fixed or values[name][c[0]] == fixed[name]])
        if left[-1]:
            code, follows = left[-1].pop()
            codes.append(code)
            columns.append({**columns[-1], **follows})
            continue
        left.pop()
        back += 1
        if not codes or back > MOST_BACK:
            return None
        codes.pop()
        columns.pop()
    return {p.name: code for (p, _, _), code in zip(steps, codes, strict=True)}


def _candidates(
    step: Step, codes: dict[str, int], before: dict[str, int], values: dict[str, tuple[int | str, ...]],
    rng: np.random.Generator,
) -> list[tuple[int, dict[str, int]]]:  # fmt: skip
    """Return the codes that the step's rules accept, in random order, each with the attributes that it implies."""
    parameter, attributes, rules = step
    count = len(parameter.values)
    needed = {parameter.name}.union(*(one.needs for one in (*attributes, *rules)))
    arrays: dict[str, IntArray] = {name: np.full(count, codes[name]) for name in needed & codes.keys()}
    columns = Columns.coded({**arrays, parameter.name: np.arange(count)}, values, count)
    for name in needed & before.keys():
        columns = columns.with_integers(name, np.full(count, before[name]))
    for attribute in attributes:
        columns = columns.with_integers(attribute.name, attribute.evaluate(columns))
    allowed = np.ones(count, dtype=np.bool_)
    for rule in rules:
        allowed &= rule.evaluate(columns)
        if not allowed.any():
            return []
    order = rng.permutation(np.flatnonzero(allowed)).tolist()
    return [(code, {a.name: int(columns[a.name][code]) for a in attributes}) for code in order]
