"""Run a tile program's kernel in the emulator and check its result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from measurements.emulator import emulate
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.problem import ProgramProblem


def outcome(p: ProgramProblem, kernel: GeneratedKernel, inputs: Mapping[str, Array] | None = None) -> str:
    """Emulate a kernel and check its results.

    Returns:
        The emulator's status if it is not "ok". Otherwise "wrong" if a result exceeds the interpreter's error bounds,
        and "ok" if none does.
    """
    inputs = p.random_inputs(1) if inputs is None else inputs
    run = emulate(kernel, inputs, time_limit=60.0)
    if run.status != "ok":
        return str(run.status)
    expected, bounds = p.expected(inputs)
    types = {o.name: o.dtype for o in p.operands()}
    for name, values in expected.items():
        loaded = types[name].load(run.outputs[name])
        with np.errstate(invalid="ignore"):
            near = np.abs(loaded - values) <= bounds[name]
        if not np.all(near | (loaded == values) | (np.isnan(loaded) & np.isnan(values))):
            return "wrong"
    return "ok"
