"""The description of a schedule shows how values are distributed, and how conversions exchange elements."""

from __future__ import annotations

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.schedules.describe import conversions, values
from search_spaces.programs.template import template


def test_probabilities_stay_in_their_threads() -> None:
    program = load_program("examples/programs/attention.py:full_attention")
    p = problem(program, h=1, g=1, s=128, d=64)
    space = template(program).space(p, device("a100"))
    (schedule,) = space.sample(1, 0)
    found_conversions = {(c.source, c.target): c for c in conversions(p, schedule.values)}
    probabilities = found_conversions["result_0", "left_1"]
    assert probabilities.route in ("nothing", "other registers") and probabilities.cost == 0
    rows = values(p, schedule.values)
    assert {"mma", "exp2", "reduce"} <= {row.operation for row in rows}
    assert all(row.location.startswith("attention.py:") for row in rows)
