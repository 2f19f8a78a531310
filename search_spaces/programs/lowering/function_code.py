"""CUDA C++ of element-wise functions, including those whose code depends on the range of an argument."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.planning.uniform import is_never_negative

FLOOR_MODULO = "({0} - tile::floor_divide({0}, {1}) * {1})"  # the remainder is >= 0 for any dividend, as in Python


def function_code(operation: ir.Map, inference: Inference, iterations: Mapping[int, int]) -> str:
    """Return the CUDA C++ of a function, with its arguments as ``{0}``, ``{1}``, ...

    Args:
        operation: The function and its arguments.
        inference: Inference of the program.
        iterations: The largest number of iterations of each loop.
    """
    dividend = operation.arguments[0]
    if operation.function == "modulo" and not (
        isinstance(dividend, ir.Value) and is_never_negative(dividend, inference, iterations)
    ):
        return FLOOR_MODULO
    return FUNCTIONS[operation.function].code
