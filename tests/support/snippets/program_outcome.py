"""What comes of a tile program's kernel in the emulator."""

from __future__ import annotations

import numpy as np

from measurements.emulator import emulate
from search_spaces.programs.problem import ProgramProblem
from search_spaces.templates.kernel import Kernel


def outcome(p: ProgramProblem, kernel: Kernel) -> str:
    """Return "ok", what the emulator reports, or "wrong": beyond the interpreter's bounds."""
    inputs = p.random_inputs(1)
    run = emulate(kernel, inputs, time_limit=60.0)
    if run.status != "ok":
        return str(run.status)
    wanted, bounds = p.expected(inputs)
    types = {o.name: o.dtype for o in p.operands()}
    for name, values in wanted.items():
        if not np.all(np.abs(types[name].load(run.outputs[name]) - values) <= bounds[name]):
            return "wrong"
    return "ok"
