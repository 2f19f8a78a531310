"""The law that a launch counts its blocks, in every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from search_spaces.catalogue import families, family, problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.launch_rules import MOST_BLOCKS

H200 = device("h200")
# The largest grids that each family's problems allow; arrays of these sizes fit on no device.
LARGEST = (
    {"family": "matmul", "m": 2**19, "n": 2**20 - 1, "k": 64},
    {"family": "matmul", "m": 16, "n": 16, "k": 2**10, "batch": 2**25},
    {"family": "matvec", "m": 1, "n": 2**30 - 1, "k": 512},
    {"family": "matvec", "m": 16, "n": 2**28, "k": 2**11},
    {"family": "transpose", "rows": 2**19, "columns": 2**20 - 1, "dtype": "u8"},
    {"family": "copy", "rows": 2**19, "columns": 2**20 - 1, "dtype": "u128"},
    {"family": "reduce", "rows": 2**30 - 1, "columns": 2**9},
    {"family": "reduce", "rows": 2**9, "columns": 2**30 - 1, "axis": "column"},
    {"family": "softmax", "rows": 2**29, "columns": 2**10},
    {"family": "rmsnorm", "rows": 2**29, "columns": 2**10},
    {"family": "layernorm", "rows": 2**29, "columns": 2**10},
)


def test_every_family_is_looked_at() -> None:
    assert {problem["family"] for problem in LARGEST} == {f.name for f in families()}


@pytest.mark.parametrize("data", LARGEST, ids=lambda data: f"{data['family']}-{list(data.values())[1]}")
def test_no_legal_schedule_launches_more_blocks_than_a_grid_counts(data: dict[str, Any]) -> None:
    problem = problem_from_json(data)
    row = family(problem.family)
    space = row.space(problem, H200)
    blocks = [row.config(problem, schedule, H200).blocks for schedule in space.sample(200, seed=3)]
    assert max(blocks) <= MOST_BLOCKS


def test_a_grid_that_is_too_large_is_refused_by_name() -> None:
    space = family("matmul").space(problem_from_json(LARGEST[0]), H200)
    rng = np.random.default_rng(0)
    values = {p.name: p.random(rng) for p in space.parameters} | {"tile_m": 16, "tile_n": 16, "split_k": 1}
    reasons = {v.rule: v.reason for v in space.explain(values)}
    assert reasons["grid"].endswith("2147483647 blocks of a launch with tile_m = 16, tile_n = 16, split_k = 1")
    small = family("matmul").space(Matmul(4096, 4096, 4096), H200)
    assert "grid" not in {rule.name for rule in small.rules}, "it could refuse nothing, and would tie parameters"
