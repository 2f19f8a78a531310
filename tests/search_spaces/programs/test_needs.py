"""Registers and shared memory computed for many schedules at once agree with ``estimates.needs`` of each schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.planning import estimates
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.template import template
from search_spaces.spaces.columns import Columns

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"


@pytest.mark.parametrize(
    ("program_path", "sizes"),
    [
        ("gemm_relu.py", {"m": 64, "n": 96, "k": 64}),
        ("softmax_rows.py:row_softmax", {"m": 40, "n": 200}),
        ("attention.py:full_attention", {"h": 1, "g": 1, "s": 64, "d": 64}),
    ],
)
def test_requirements_of_every_intrinsic_are_estimated(program_path: str, sizes: dict[str, int]) -> None:
    p = problem(load_program(str(EXAMPLES / program_path)), **sizes)
    choices, space, rng = choices_of(p), template(p.program).space(p, device("h100")), np.random.default_rng(0)
    live = next(a for a in space.attributes if a.name == "live_registers")
    plan = next(rule for rule in space.rules if rule.name == "plan")
    fitting = 0
    for _ in range(2):  # evaluate two random samples of configurations
        codes = {q.name: rng.integers(0, len(q.values), 300) for q in space.parameters}
        rows = Columns.coded(codes, {q.name: q.values for q in space.parameters}, 300)
        registers, allowed = live.evaluate(rows), plan.evaluate(rows)
        values = {name: rows.decode(name) for name in (*plan.needs, *live.needs)}
        for row in range(300):
            one = {name: column[row] for name, column in values.items()}
            needs = estimates.needs(choices.inference(one), {name: one[name] for name in plan.needs})
            extra = (int(one.get("fragment_buffers", 1)) - 1) * needs.fragments
            extra += int(one.get("products_ahead", 0)) * needs.in_flight
            assert registers[row] == needs.registers + extra
            assert allowed[row] == (needs.why_not is None and needs.registers <= 1024)
            fitting += needs != estimates.NOTHING
    assert fitting
