"""Check that the maps of operands and results agree (Intel XeTile RFC, workgroup-level extension).

Each check returns one sentence per disagreement, which names the map and the rule. An empty tuple means that the maps
agree. A check derives the operands' maps from the result's map (by ``WgMap.mma_operands`` and similar methods), and
compares them with the given maps and the shapes. ``order`` is not compared, because it describes memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from search_spaces.arrays import BoolArray
from search_spaces.layouts.wg_map import WgMap


def check_mma(a: WgMap, b: WgMap, c: WgMap, m: int, n: int, k: int) -> tuple[str, ...]:
    """Return the reasons why the maps of ``C[m, n] = A[m, k] @ B[k, n]`` disagree.

    All maps must have the same sg_layout, and the same sg_data along m, n and k. Every subgroup must hold all of k for
    the rows and columns that it computes.

    Args:
        a: Map of A.
        b: Map of B.
        c: Map of C.
        m: Number of rows of C.
        n: Number of columns of C.
        k: Number of columns of A.

    Returns:
        A sentence for each disagreement; empty if the maps agree.
    """
    findings = _check_shapes(("A", a, (m, k)), ("B", b, (k, n)), ("C", c, (m, n)))
    for name, operand in (("A", a), ("B", b)):
        if operand.sg_layout != c.sg_layout:
            findings.append(
                f"{name} has sg_layout {list(operand.sg_layout)} but C has {list(c.sg_layout)}: they must agree"
            )
    for name, operand, d, axis in (("A", a, 0, "m"), ("B", b, 1, "n")):
        if operand.sg_data[d] != c.sg_data[d]:
            findings.append(f"{name} has sg_data {operand.sg_data[d]} along {axis} but C has {c.sg_data[d]}")
    if a.sg_data[1] != b.sg_data[0]:
        findings.append(f"A has sg_data {a.sg_data[1]} along k but B has {b.sg_data[0]}")
    if not findings:
        for name, operand, d, shape in (("A", a, 1, (m, k)), ("B", b, 0, (k, n))):
            extent = operand.rounds(shape)[d] * operand.sg_data[d]
            if extent < k:
                findings.append(
                    f"{name} assigns {extent} of the {k} elements along k to a subgroup: subgroups with "
                    "the same rows or columns of C must share all of k"
                )
    return tuple(findings)


def check_reduction(
    source: WgMap, result: WgMap, shape: Sequence[int], dim: int, size: int | None = None
) -> tuple[str, ...]:
    """Return the reasons why the maps of a reduction disagree.

    Args:
        source: Map of the vector that is reduced. This map must be the one that follows from ``result``.
        result: Map of the result.
        shape: Shape of the vector.
        dim: Reduced dimension, 0 or 1.
        size: ``reduction_size``, the number of adjacent elements that are combined; None for all of ``dim``.

    Returns:
        A sentence for each disagreement; empty if the maps agree.
    """
    factor = shape[dim] if size is None else size
    if shape[dim] % factor:
        return (f"reduction_size is {factor} but dimension {dim} has {shape[dim]} elements: choose a divisor",)
    findings = _check_shapes(("the source", source, shape), ("the result", result, _divided(shape, dim, factor)))
    return tuple(findings + _check_derived(source, result.reduction_input(dim, factor)))


def check_broadcast(
    source: WgMap, result: WgMap, shape: Sequence[int], dim: int, size: int | None = None
) -> tuple[str, ...]:
    """Return the reasons why the maps of a broadcast disagree.

    Args:
        source: Map of the vector that is broadcast. This map must be the one that follows from ``result``.
        result: Map of the result.
        shape: Shape of the result.
        dim: Broadcast dimension, 0 or 1.
        size: ``broadcast_size``, the number of copies of each element; None for all of ``dim``.

    Returns:
        A sentence for each disagreement; empty if the maps agree.
    """
    factor = shape[dim] if size is None else size
    if shape[dim] % factor:
        return (f"broadcast_size is {factor} but dimension {dim} has {shape[dim]} elements: choose a divisor",)
    findings = _check_shapes(("the source", source, _divided(shape, dim, factor)), ("the result", result, shape))
    try:
        derived = result.broadcast_input(dim, size)
    except ValueError as error:
        return (*findings, str(error))
    return tuple(findings + _check_derived(source, derived))


def check_transpose(source: WgMap, result: WgMap, shape: Sequence[int]) -> tuple[str, ...]:
    """Return the reasons why the maps of a transpose to a vector of ``shape`` disagree.

    The source's map must be the transposed map, or any map with which every subgroup already holds its elements of the
    result (RFC, appendix 2.3).
    """
    findings = _check_shapes(("the source", source, shape[::-1]), ("the result", result, shape))
    if findings or transposes_in_place(source, result, shape):
        return tuple(findings)
    return tuple(_check_derived(source, result.transpose_input()))


def check_convert_layout(source: WgMap, result: WgMap, shape: Sequence[int]) -> tuple[str, ...]:
    """Return the reasons why the maps of a conversion disagree.

    The maps of source and result must fit ``shape`` and have equally many subgroups.
    """
    findings = _check_shapes(("the source", source, shape), ("the result", result, shape))
    if source.subgroups != result.subgroups:
        findings.append(
            f"the source has {source.subgroups} subgroups but the result has {result.subgroups}: "
            "the numbers must be equal"
        )
    return tuple(findings)


def owners_along(wg_map: WgMap, shape: Sequence[int]) -> tuple[BoolArray, BoolArray]:
    """Return, for each subgroup, the rows and the columns that it owns in a tile of ``shape``.

    Returns:
        ``[subgroups, rows]`` and ``[subgroups, columns]``; a subgroup owns the product of its rows and columns.
    """
    origins = wg_map.all_offsets(shape)
    masks = []
    for d in (0, 1):
        mask = np.zeros((wg_map.subgroups, shape[d] // wg_map.sg_data[d]), dtype=np.bool_)
        np.put_along_axis(mask, origins[..., d] // wg_map.sg_data[d], True, axis=1)
        masks.append(np.repeat(mask, wg_map.sg_data[d], axis=1))
    return masks[0], masks[1]


def transposes_in_place(source: WgMap, result: WgMap, shape: Sequence[int]) -> bool:
    """Return True if a transpose to a vector of ``shape`` stays within each subgroup's registers.

    This is the case if every subgroup already holds, before the transpose, all elements that ``result`` assigns to it.
    """
    return source.subgroups == result.subgroups and _holds(
        owners_along(source, shape[::-1])[::-1], owners_along(result, shape)
    )


def converts_in_place(source: WgMap, result: WgMap, shape: Sequence[int]) -> bool:
    """Return True if a conversion of a vector of ``shape`` stays within each subgroup's registers.

    This is the case if every subgroup already holds all elements that ``result`` assigns to it.
    """
    return source.subgroups == result.subgroups and _holds(owners_along(source, shape), owners_along(result, shape))


def _holds(has: tuple[BoolArray, ...], needs: tuple[BoolArray, ...]) -> bool:
    return all(bool((own | ~wanted).all()) for own, wanted in zip(has, needs, strict=True))


def _divided(shape: Sequence[int], dim: int, factor: int) -> list[int]:
    return [n // factor if d == dim else n for d, n in enumerate(shape)]


def _check_shapes(*operands: tuple[str, WgMap, Sequence[int]]) -> list[str]:
    findings = []
    for name, wg_map, shape in operands:
        try:
            wg_map.verify(shape)
        except ValueError as error:
            findings.append(f"{name} does not fit its {'x'.join(map(str, shape))} vector: {error}")
    return findings


def _check_derived(source: WgMap, derived: WgMap) -> list[str]:
    return [
        f"the source has {field} {list(actual)} but the result's map requires {list(wanted)}"
        for field, actual, wanted in (
            ("sg_layout", source.sg_layout, derived.sg_layout),
            ("sg_data", source.sg_data, derived.sg_data),
        )
        if actual != wanted
    ]
