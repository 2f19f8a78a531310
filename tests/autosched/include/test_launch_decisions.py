"""Matmuls with every value of the decisions that a launch passes to the kernel: all of them compute the product."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_one
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(4096, 6144, 4096, a="bf16")
KEPT, TILES = ("none", "a", "b"), (1, 2, 3, 4, 7)
PARTS, NIGHTLY, BY_DAY = 5, 20, 3  # nightly: 100 schedules of each template


def schedules(name: str, on: str, count: int, seed: int) -> Iterator[Schedule]:
    """Yield sampled schedules, with orders, hints and tiles per block drawn anew as far as they are legal."""
    made, target = template(name), device(on)
    space, draw = made.space(PROBLEM, target).valid, random.Random(seed)
    orders = next(p for p in space.parameters if p.name == "raster").values
    for i, schedule in enumerate(made.space(PROBLEM, target).sample(count, seed=seed)):
        other = schedule.values | {"raster": orders[i % len(orders)], "l2_evict_last": KEPT[i % len(KEPT)]}
        candidates = [
            Schedule(name, tuple((other | {"tiles_per_block": t}).items())) for t in draw.sample(TILES, len(TILES))
        ]
        yield next((c for c in candidates if c in space), schedule)


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(("name", "on"), [("wgmma_matmul", "h200"), ("tcgen05_matmul", "b200")])
@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(1, PARTS))])
def test_decisions_of_a_launch_leave_the_product(name: str, on: str, part: int, nightly: bool) -> None:
    seen = set()
    for schedule in schedules(name, on, NIGHTLY if nightly else BY_DAY, 7 + part):
        verdict = verify_one(template(name), PROBLEM, schedule, device(on), depth="quick")
        assert verdict.ok, (schedule, verdict.reason)
        seen |= {(n, schedule[n]) for n in ("raster", "l2_evict_last")}
    assert not nightly or len(seen) == 10
