"""Check that results do not depend on the order of blocks, in programs that load arrays which they also write."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.operators.sorted_limits import sorted_limits
from search_spaces.programs.language import ir
from search_spaces.programs.language.interpret import interpret
from search_spaces.programs.language.ir import ProgramError

ORDERS = (0, 1, 2, 3)  # values of the argument ``order`` of ``interpret``
Outputs = tuple[dict[str, FloatArray], dict[str, FloatArray]]


def fetch_of(trace: ir.Trace) -> ir.AtomicFetch | ir.LoadTile | None:
    """Return the first operation whose result may depend on other blocks' writes; None if there is none.

    Such an operation is an atomic that fetches old elements, or a load of an InOut array.
    """
    for operation, _ in trace.walk():
        if isinstance(operation, ir.AtomicFetch):
            return operation
        if isinstance(operation, ir.LoadTile) and operation.window.array.role == "inout":
            return operation
    return None


def interpret_in_any_order(trace: ir.Trace, inputs: Mapping[str, Array], unordered: Collection[str]) -> Outputs:
    """Interpret a program in several orders and check that the results agree.

    Args:
        trace: The program.
        inputs: Arrays by name, without the outputs.
        unordered: Names of arrays whose elements may come in any order.

    Returns:
        The outputs and error bounds of ``interpret`` for blocks in ascending order.

    Raises:
        ProgramError: If a result depends on the order.
    """
    first = interpret(trace, inputs)
    fetch = fetch_of(trace)
    if fetch is None:
        return first
    for order in ORDERS[1:]:
        other = interpret(trace, inputs, order)
        for name in first[0]:
            one, two = ((values[name], bounds[name]) for values, bounds in (first, other))
            alike = (
                _overlap(sorted_limits(*one), sorted_limits(*two))
                if name in unordered
                else agrees(two[0], one[0], one[1] + two[1])
            )
            if not alike.all():
                raise ProgramError(
                    f"{fetch.source}: {ir.spelled(fetch)}: {name} depends on the order of blocks and threads, because "
                    f"the program uses values of {fetch.window.array.name} that other blocks write: use only values "
                    "that are the same in every order, or declare a vector with unordered=True"
                )
    return first


def agrees(actual: FloatArray, wanted: FloatArray, bounds: FloatArray) -> BoolArray:
    """Return a mask of the positions at which two results agree: within ``bounds``, equal, or both NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(actual - wanted) <= bounds
    same: BoolArray = near | (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    return same


def _overlap(one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]) -> BoolArray:
    """Return a mask of the positions at which two intervals (low, high) overlap, or both are NaN."""
    both: BoolArray = np.isnan(one[0]) & np.isnan(other[0])
    return both | ((one[0] <= other[1]) & (other[0] <= one[1]))
