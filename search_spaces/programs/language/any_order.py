"""Programs that load what they write: that their results do not depend on the order of blocks and threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.programs.language import ir
from search_spaces.programs.language.interpret import interpret
from search_spaces.programs.language.ir import ProgramError

ORDERS = (0, 1, 2, 3)  # of ``interpret``
Outputs = tuple[dict[str, FloatArray], dict[str, FloatArray]]


def fetch_of(trace: ir.Trace) -> ir.AtomicFetch | ir.LoadTile | None:
    """Return the first operation that takes what blocks write: old values of atomics, and loads of InOut arrays."""
    for operation, _ in trace.walk():
        if isinstance(operation, ir.AtomicFetch):
            return operation
        if isinstance(operation, ir.LoadTile) and operation.window.array.role == "inout":
            return operation
    return None


def in_order(values: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the elements in ascending order, NaN last, with a bound that holds for each: sorting brings no two
    vectors farther apart than their elements are.
    """
    return np.sort(values, axis=None), np.full(values.size, bounds.max(initial=0.0))


def interpret_in_any_order(trace: ir.Trace, inputs: Mapping[str, Array], unordered: Collection[str]) -> Outputs:
    """Interpret a program in several orders, whose results must agree.

    Args:
        trace: The program.
        inputs: Its arrays but the outputs, by name.
        unordered: Names of arrays whose elements may come in any order.

    Returns:
        As ``interpret``, in ascending order.

    Raises:
        ProgramError: For a result that depends on the order.
    """
    first = interpret(trace, inputs)
    fetch = fetch_of(trace)
    if fetch is None:
        return first
    for order in ORDERS[1:]:
        other = interpret(trace, inputs, order)
        for name in first[0]:
            one, two = ((values[name], bounds[name]) for values, bounds in (first, other))
            if name in unordered:
                one, two = in_order(*one), in_order(*two)
            if not agrees(two[0], one[0], one[1] + two[1]).all():
                raise ProgramError(
                    f"{fetch.source}: {ir.spelled(fetch)}: {name} depends on the order in which blocks and threads "
                    f"come, through values of {fetch.window.array.name} that others write: use what is the same in any "
                    "order, or declare a vector unordered=True"
                )
    return first


def agrees(found: FloatArray, wanted: FloatArray, bounds: FloatArray) -> BoolArray:
    """Return where elements are within their bounds, or equal, or both NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(found - wanted) <= bounds
    same: BoolArray = near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return same
