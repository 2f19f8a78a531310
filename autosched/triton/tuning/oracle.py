"""Compare a Triton kernel's outputs with outputs of a reference function or of the default configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import CompiledCandidate
from autosched.triton.tuning.outputs import (
    Expected,
    largest_error,
    operand_of,
    other_part,
    values_at_positions,
    values_of,
)
from autosched.verify.oracle import UNVERIFIED, Comparison
from measurements.emulator import Emulation
from measurements.trials.comparison import distinct_texts
from search_spaces.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class ExpectedOutputs:
    """Expected contents of the outputs of one call.

    Attributes:
        call: The call, with its tensors.
        expected: The expected values, by name of the tensor.
        against: Source of the expected values, for messages.
        tolerance: Relative and absolute tolerance; None for the default tolerance of each type.
    """

    call: KernelCall
    expected: Mapping[str, Expected]
    against: str
    tolerance: tuple[float, float] | None = None

    def error(self, name: str, tensor: torch.Tensor, actual: FloatArray, expected: Expected) -> tuple[float, str]:
        """Return the largest ratio of an error to its tolerance, and a message if it exceeds 1."""
        error, index = largest_error(tensor.dtype, actual, expected, self.tolerance)
        if error <= 1:
            return error, ""
        where = ", ".join(map(str, index))
        value, should = distinct_texts(actual[index].item(), expected.values[index].item())
        return error, (
            f"element ({where}) of {name} is {value}, but {self.against} computes {should}: "
            f"the error is {error:.3g} times the tolerance"
        )


@dataclass(frozen=True, eq=False)
class WholeGrid:
    """Oracle for a run of all blocks."""

    outputs: ExpectedOutputs
    candidate: CompiledCandidate

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare every output, and which bytes were written."""
        worst, tensors = 0.0, dict(self.outputs.call.tensors())
        for name, expected in self.outputs.expected.items():
            tensor = tensors[name]
            if expected.written is not None:
                reason = other_part(name, expected.written, emulation.written[operand_of(self.candidate, tensor)])
                if reason:
                    return Comparison(math.inf, reason)
            values = values_of(self.candidate, emulation.outputs, tensor)
            error, reason = self.outputs.error(name, tensor, values, expected)
            if reason:
                return Comparison(error, reason)
            worst = max(worst, error)
        return Comparison(worst)


@dataclass(frozen=True, eq=False)
class SomeBlocks:
    """Oracle for a run of some blocks."""

    outputs: ExpectedOutputs
    candidate: CompiledCandidate

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the elements that the blocks wrote.

        The status is ``unverified`` if the reference has none of these elements.
        """
        worst, compared, tensors = 0.0, 0, dict(self.outputs.call.tensors())
        for name, expected in self.outputs.expected.items():
            tensor = tensors[name]
            written = emulation.elements.get(operand_of(self.candidate, tensor))
            if written is None or written.values.dtype.itemsize != tensor.element_size():
                continue
            values, where = values_at_positions(written, tensor)
            compared += int(np.count_nonzero(where))
            error, reason = self.outputs.error(name, tensor, values, expected.only(where))
            if reason:
                return Comparison(error, reason)
            worst = max(worst, error)
        if not compared:
            reason = "the blocks that ran write no element of the reference's outputs"
            return Comparison(None, reason, status=UNVERIFIED)
        return Comparison(worst)
