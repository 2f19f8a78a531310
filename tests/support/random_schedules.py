"""A valid schedule at random, without the tables that count a whole space: of a few values of each parameter."""

from __future__ import annotations

import random
from dataclasses import replace

from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import EmptySpace, Space

FEW = 3  # values of a parameter at first; twice as many where no schedule has them


def random_schedule(space: Space, seed: int) -> Schedule:
    """Every valid schedule has a chance, though not the same one."""
    rng = random.Random(seed)
    few = FEW
    while True:
        parameters = [
            replace(p, values=tuple(sorted(rng.sample(p.values, min(few, len(p.values))), key=p.values.index)),
                    chosen_default=None, before=None)
            for p in space.parameters
        ]  # fmt: skip
        small = Space(space.name, parameters, space.attributes, space.constraints, stratified_by=space.stratified_by)
        try:
            return small.sample(1, seed)[0]
        except EmptySpace:
            if few > max(len(p.values) for p in space.parameters):
                raise
            few += 1
