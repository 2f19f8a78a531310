"""Matmuls are correct with every value of the parameters that a launch passes to the kernel."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_one
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(4096, 6144, 4096, a="bf16")
TILES = (1, 2, 3, 4, 7)
PARTS, NIGHTLY, BY_DAY = 20, 5, 3  # the nightly run has 20 * 5 schedules of each template


def domains(name: str, on: str) -> dict[str, tuple[Value, ...]]:
    """Return the domains of the template's parameters for the order of tiles and for the operand that L2 keeps."""
    parameters = template(name).space(PROBLEM, device(on)).parameters
    return {p.name: p.values for p in parameters if p.name in ("raster", "l2_evict_last")}


def schedules(name: str, on: str, part: int, count: int) -> Iterator[Schedule]:
    """Yield sampled schedules, with a changed tile order, L2 hint and number of tiles per block where legal.

    Tile orders and L2 hints cycle through their domains. Each part of the sample continues the cycle of the previous
    part.
    """
    kernel_template, target = template(name), device(on)
    space, draw = kernel_template.space(PROBLEM, target).valid, random.Random(7 + part)
    drawn = domains(name, on)
    for i, schedule in enumerate(kernel_template.space(PROBLEM, target).sample(count, seed=7 + part), part * count):
        other = schedule.values | {decision: values[i % len(values)] for decision, values in drawn.items()}
        tiles = draw.sample(TILES, len(TILES)) if "tiles_per_block" in other else []
        candidates = [Schedule(name, tuple((other | {"tiles_per_block": t}).items())) for t in tiles]
        yield next((c for c in candidates or [Schedule(name, tuple(other.items()))] if c in space), schedule)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "on"),
    [("wgmma_matmul", "h200"), ("tcgen05_matmul", "b200"), ("tma_matmul", "rtx5090"), ("matmul", "rtx4090")],
)
def test_the_schedules_have_every_value(name: str, on: str) -> None:
    drawn = domains(name, on)
    all_schedules = [schedule for part in range(PARTS) for schedule in schedules(name, on, part, NIGHTLY)]
    assert len(all_schedules) == 100
    assert {d: {schedule[d] for schedule in all_schedules} for d in drawn} == {d: set(drawn[d]) for d in drawn}


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("wgmma_matmul", "h200"),
        ("tcgen05_matmul", "b200"),
        pytest.param("tma_matmul", "rtx5090", marks=pytest.mark.nightly),
        pytest.param("matmul", "rtx4090", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(1, PARTS))])
def test_launch_parameters_do_not_change_the_product(name: str, on: str, part: int, nightly: bool) -> None:
    for schedule in schedules(name, on, part, NIGHTLY if nightly else BY_DAY):
        verdict = verify_one(template(name), PROBLEM, schedule, device(on), depth="quick")
        assert verdict.ok, (schedule, verdict.reason)
