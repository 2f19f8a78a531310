"""A call of a Triton function as a problem, which identifies the trials of the call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch

from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem, option

PREFIX = "triton:"
_TENSOR = re.compile(r"(?:\w+:)?(\w+)\[([\d,]*)\]")
_ELEMENT_BYTES = {str(t).removeprefix("torch."): t.itemsize for t in vars(torch).values() if isinstance(t, torch.dtype)}
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True)
class TritonProblem(Problem):
    """A call of a Triton function, without the values of tensors.

    ``arguments`` describes the call (``KernelCall.described``): types, shapes and strides of tensors, and numbers.
    This problem has no reference, because a reference needs the values of tensors. ``verifier.py`` therefore uses the
    call itself.
    """

    operator: ClassVar[str] = PREFIX
    summary: ClassVar[str] = "a call of a Triton function"

    arguments: str = option("The call: types, shapes and strides of its tensors, and its numeric arguments.")

    @property
    def described(self) -> str:
        """Name of the kernel and its arguments."""
        return f"{self.operator} {self.arguments}"

    def operands(self) -> tuple[Operand, ...]:
        """Return each tensor as an operand of unsigned integers of its element size.

        Every tensor counts as input and output, because the description does not state which tensors are read or
        written.
        """
        results = []
        for each in self.arguments.split():
            name, _, text = each.partition("=")
            for k, (dtype, shape) in enumerate(_TENSOR.findall(text)):
                sizes = tuple(int(n) for n in shape.split(",") if n)
                unsigned = SCALAR_DTYPES[_UNSIGNED[min(_ELEMENT_BYTES.get(dtype, 1), 8)]]
                results.append(Operand(name if k == 0 else f"{name}[{k}]", "inout", unsigned, sizes))
        return tuple(results)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the passed arguments."""
        return tuple(each.partition("=")[0] for each in self.arguments.split())

    @property
    def scalars(self) -> dict[str, int]:
        """Return the integer arguments."""
        pairs = (each.partition("=") for each in self.arguments.split())
        return {name: int(value) for name, _, value in pairs if re.fullmatch(r"-?\d+", value)}

    @property
    def flops(self) -> float:
        """0, because the number of operations is unknown."""
        return 0.0

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise ValueError, because only the verifier has the reference."""
        raise ValueError(
            "the problem of a Triton kernel has no reference: use ConfigurationVerifier, which compares with the "
            "default configuration or a user's function"
        )

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise ValueError, because only the verifier has the tolerance."""
        raise ValueError("the problem of a Triton kernel has no tolerance: pass a tolerance to ConfigurationVerifier")


@cache
def problem_type(function: str) -> type[TritonProblem]:
    """Return the problem type for calls of a function, by the function's name."""
    return type("TritonProblem", (TritonProblem,), {"operator": f"{PREFIX}{function}", "__module__": __name__})


def operator(function: str) -> Operator:
    """Return the operator that represents a tuned Triton function."""
    return Operator.of(problem_type(function))
