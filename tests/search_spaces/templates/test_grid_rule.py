"""Every template has a validity constraint that limits the number of blocks to what a launch allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import spread

from search_spaces.catalogue import BUILT_IN_OPERATORS, BUILT_IN_TEMPLATES, problem_from_json, template, templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.launch_rules import MOST_BLOCKS

H200 = device("h200")
DEVICES = (H200, device("b200"))  # each template supports at least one of these devices
# Problems with the largest grids that each operator allows. Their arrays fit on no device.
LARGEST = (
    {"operator": "matmul", "m": 2**19, "n": 2**20 - 1, "k": 64},
    {"operator": "matmul", "m": 16, "n": 16, "k": 2**10, "batch": 2**25},
    {"operator": "matvec", "m": 1, "n": 2**30 - 1, "k": 512},
    {"operator": "matvec", "m": 16, "n": 2**28, "k": 2**11},
    {"operator": "transpose", "rows": 2**19, "columns": 2**20 - 1, "dtype": "u8"},
    {"operator": "copy", "rows": 2**19, "columns": 2**20 - 1, "dtype": "u128"},
    {"operator": "reduce", "rows": 2**30 - 1, "columns": 2**9},
    {"operator": "reduce", "rows": 2**9, "columns": 2**30 - 1, "axis": "column"},
    {"operator": "softmax", "rows": 2**29, "columns": 2**10},
    {"operator": "rmsnorm", "rows": 2**29, "columns": 2**10},
    {"operator": "layernorm", "rows": 2**29, "columns": 2**10},
)


def test_every_built_in_operator_and_template_is_covered() -> None:
    assert {type(problem_from_json(data)) for data in LARGEST} == {o.problem_type() for o in BUILT_IN_OPERATORS}
    looked_at = {t.name for data in LARGEST for on in DEVICES for t in templates_for(problem_from_json(data), on)}
    assert looked_at == {t.name for t in BUILT_IN_TEMPLATES}  # other tests of this process may register more


@pytest.mark.parametrize("data", spread(LARGEST, 5), ids=lambda data: f"{data['operator']}-{list(data.values())[1]}")
def test_no_legal_schedule_launches_more_blocks_than_a_grid_counts(data: dict[str, Any]) -> None:
    problem = problem_from_json(data)
    rows = {row.name: (row, on) for on in reversed(DEVICES) for row in templates_for(problem, on)}
    for row, on in rows.values():
        space = row.space(problem, on)
        kernels = [row.lower(problem, config, on) for config in space.configs(space.sample(200, seed=3))]
        assert max(kernel.grid[0] for kernel in kernels) <= MOST_BLOCKS
        assert all(kernel.grid[1:] == (1, 1) for kernel in kernels)


def test_a_grid_that_is_too_large_is_rejected_by_name() -> None:
    space = template("matmul").space(problem_from_json(LARGEST[0]), H200)
    rng = np.random.default_rng(0)
    values = {p.name: p.random(rng) for p in space.parameters} | {"tile_m": 16, "tile_n": 16, "split_k": 1}
    reasons = {v.rule: v.reason for v in space.explain(values)}
    assert f"{2**15 * 2**16}" in reasons["grid"] and "2147483647 blocks" in reasons["grid"]
    small = template("matmul").space(Matmul(4096, 4096, 4096), H200)
    assert "grid" not in {rule.name for rule in small.rules}, (
        "the rule would reject no schedule, and only tie parameters together"
    )
