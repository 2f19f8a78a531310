"""Make the smallest problem of any operator, with one fixed value for each required size."""

from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem

_SIZES = (8, 16, 32, 64, 128)


def small_sizes(operator: Operator) -> dict[str, int]:
    """Return one size for all required fields: the first of ``_SIZES`` that the operator accepts."""
    required = [o.field for o in operator.options if o.default is None]
    for size in _SIZES:
        sizes = dict.fromkeys(required, size)
        try:
            operator.make(**sizes)
        except ValueError:
            continue
        return sizes
    raise AssertionError(f"{operator.name} has no problem of sizes up to {_SIZES[-1]}")


def small_problem(operator: Operator) -> Problem:
    """Return the problem of ``small_sizes``, with the operator's defaults."""
    return operator.make(**small_sizes(operator))
