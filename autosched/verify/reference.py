"""Oracle that compares outputs with a problem's float64 reference, and bit by bit with an earlier run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from autosched import blas
from autosched.verify.oracle import Comparison
from measurements.emulator import Emulation
from measurements.trials.comparison import check
from search_spaces.arrays import Array, FloatArray
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem

_CHUNK = 1 << 16  # number of elements compared at a time, few enough for a CPU cache


@dataclass(frozen=True, eq=False)
class Reference:
    """Oracle that compares every element of a launch's outputs.

    Attributes:
        problem: Provides the reference and the tolerances.
        inputs: Inputs of the launch.
        same_as: Outputs of an earlier run on the same inputs, which must be equal bit by bit.
        absolute: If True, the largest absolute error is computed as well.
    """

    problem: Problem
    inputs: Mapping[str, Array]
    same_as: Mapping[str, Array] = field(default_factory=dict)
    absolute: bool = False

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the outputs with the reference, then with the outputs of the earlier run."""
        with blas.single_thread():
            reference, tolerance = self.problem.expected(self.inputs)
        outcome = check(
            self.problem, self.inputs, emulation.outputs, reference=reference, tolerance=tolerance,
            signed_zeros=self.problem.signed_zeros,
        )  # fmt: skip
        reason = outcome.reason
        if outcome.ok and self.same_as:
            reason = _other_bits(self.problem.operands(), emulation.outputs, self.same_as)
        error = _max_abs_error(self.problem.operands(), reference, emulation.outputs) if self.absolute else None
        return Comparison(outcome.worst, reason, error)


def _other_bits(operands: Iterable[Operand], outputs: Mapping[str, Array], first: Mapping[str, Array]) -> str:
    """Describe the first element whose bits differ between two orders, ignoring NaN; "" if all are equal."""
    for operand in operands:
        if operand.role not in ("output", "inout") or operand.name not in first:
            continue
        one, other = first[operand.name], outputs[operand.name]
        bits = np.dtype(f"u{one.dtype.itemsize}")
        differ = np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)
        if not differ.any():
            continue
        values, other_values = operand.dtype.load(one), operand.dtype.load(other)
        differ &= ~(np.isnan(values) & np.isnan(other_values))
        if differ.any():
            at = np.unravel_index(int(differ.argmax()), one.shape)
            where = [int(i) for i in at]
            return (
                f"{operand.name}{where} is {float(other_values[at])!r} in this order of blocks or threads, but "
                f"{float(values[at])!r} in ascending order: "
                f"{int(differ.sum())} of {operand.size} elements depend on the order"
            )
    return ""


def _max_abs_error(
    operands: Iterable[Operand], reference: Mapping[str, FloatArray], outputs: Mapping[str, Array]
) -> float:
    """Return the largest absolute error over all outputs. It is infinite if the error is NaN."""
    worst = 0.0
    for operand in operands:
        if (
            operand.role in ("output", "inout") and operand.name in reference
        ):  # a problem that checks its outputs itself has no reference
            values = outputs[operand.name].reshape(-1)
            expected = np.broadcast_to(reference[operand.name], operand.shape).reshape(-1)
            for start in range(0, values.size, _CHUNK):
                part = slice(start, start + _CHUNK)
                error = float(np.abs(operand.dtype.load(values[part]) - expected[part]).max())
                worst = max(worst, math.inf if math.isnan(error) else error)
    return worst
