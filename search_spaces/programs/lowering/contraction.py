"""Decide which multiplications become fused multiply-adds. The decision is the same for all schedules of a program.

If the compiler decided, it might contract multiplications and additions in some schedules only, and results would
differ in spite of equal summation orders. The generated code therefore leaves no choice to the compiler. Additions are
``__fadd_rn``, which is never contracted. Each selected multiplication and the addition that uses it are one ``fmaf``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from search_spaces.hardware.dtypes import F32
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.refs import Ref

PRODUCT = "({0} * {1})"  # marks an inline Ref as a multiplication to fuse
_SUMS = {
    ("add", 0): "tile::multiply_add({0}, {1}, {2})",
    ("add", 1): "tile::multiply_add({0}, {1}, {2})",
    ("subtract", 0): "tile::multiply_add({0}, {1}, -{2})",
    ("subtract", 1): "tile::multiply_add(-{0}, {1}, {2})",
}


@cache
def fused_products(inference: Inference) -> frozenset[int]:
    """Return the results of f32 multiplications that are fused with the sums that use them.

    A multiplication is fused if only additions, subtractions and sum reductions use the result, in the same loop body
    or condition and in the same distribution.
    """
    uses: dict[int, list[ir.Operation]] = {}
    for operation, _ in inference.trace.walk():
        for value in ir.inputs(operation):
            uses.setdefault(value.id, []).append(operation)
    fused = set[int]()
    for segment in _segments(inference.trace.operations):
        here = {id(operation) for operation in segment}
        for operation in segment:
            if isinstance(operation, ir.Map) and _is_product(operation):
                users = list(_users_of(inference, operation.result, uses))
                if users and all(id(o) in here and _can_fuse(inference, operation.result, o) for o in users):
                    fused.add(operation.result.id)
    return frozenset(fused)


def _users_of(inference: Inference, value: ir.Value, uses: dict[int, list[ir.Operation]]) -> Iterator[ir.Operation]:
    """Yield the operations that use a value directly, or after a conversion that keeps the distribution."""
    for operation in uses.get(value.id, []):
        if isinstance(operation, ir.Convert) and not operation.shared and _keeps(inference, value, operation.result):
            yield from _users_of(inference, operation.result, uses)
        else:
            yield operation


def _keeps(inference: Inference, value: ir.Value, converted: ir.Value) -> bool:
    return all(inference.natural.get(value.id, spread) == spread for spread in inference.computed_in(converted))


def fused_sum(function: str, terms: list[Ref]) -> Ref | None:
    """Return a fused multiply-add for a sum or difference with a product as a term; None if no term is a product."""
    for at, term in enumerate(terms):
        code = _SUMS.get((function, at))
        if code is not None and is_product(term):
            return Ref("inline", code, F32, parts=(*term.parts, terms[1 - at]))
    return None


def product(factors: list[Ref]) -> Ref:
    """Return a reference to a product that gets no instruction, as it is fused with the additions that use it."""
    return Ref("inline", PRODUCT, F32, parts=tuple(factors))


def is_product(ref: Ref) -> bool:
    """Return True if a reference is a product that is to be fused with the additions that use it."""
    return ref.kind == "inline" and ref.name == PRODUCT


def is_power_of_two(number: float) -> bool:
    """Return True if a number is a power of two, so that its reciprocal is exact."""
    fraction, exponent = math.frexp(abs(number))
    return fraction == 0.5 and -125 <= exponent <= 126


def _is_product(operation: ir.Map) -> bool:
    if operation.result.dtype != F32:
        return False
    divisor = operation.arguments[-1]
    by_constant = operation.function == "divide" and isinstance(divisor, float | int) and is_power_of_two(divisor)
    return operation.function == "multiply" or by_constant


def _can_fuse(inference: Inference, value: ir.Value, taken_by: ir.Operation) -> bool:
    spreads: list[Spread]
    match taken_by:
        case ir.Map(result, "add" | "subtract"):
            spreads = inference.computed_in(result)
        case ir.ReduceTile(result, "add") if taken_by.index is None:
            spreads = [inference.sources[result.id]] if result.id in inference.sources else []
        case _:
            return False
    return set(spreads) <= set(inference.computed_in(value))


def _segments(body: tuple[ir.Operation, ...]) -> Iterator[list[ir.Operation]]:
    """Yield groups of consecutive operations that contain no loop or condition."""
    segment = list[ir.Operation]()
    for operation in body:
        if isinstance(operation, ir.Region):
            yield segment
            segment = []
            yield from _segments(operation.body)
        else:
            segment.append(operation)
    yield segment
