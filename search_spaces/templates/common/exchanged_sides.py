"""Matmuls of few rows with exchanged sides, out^T = b^T @ a^T.

wgmma and tcgen05 multiply 64 or 128 rows at a time. If a has few rows, most rows of an instruction would be empty. Both
instructions can multiply as few as 8 columns, so the sides of the product are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.template import KernelTemplate

_OTHER = {"row": "col", "col": "row"}


def exchanged(problem: Matmul) -> Matmul:
    """Return the problem with exchanged sides. Its out is the transpose of the original out.

    Two exchanges give the original problem.
    """
    order_a, order_b = _OTHER[problem.order_b], _OTHER[problem.order_a]
    return replace(problem, m=problem.n, n=problem.m, order_a=order_a, order_b=order_b)


def with_sides_exchanged(
    straight: KernelTemplate,
    *,
    name: str,
    summary: str,
    supports: Callable[[Any, Device], str | None],
    space: Callable[..., Space],
    lower_sides: Callable[..., GeneratedKernel],
    box: Callable[..., Any],
) -> KernelTemplate:
    """Return the template that computes out^T = b^T @ a^T with the functions of ``straight``, a template of matmuls.

    Args:
        straight: Computes out = a @ b.
        name: Name of the returned template.
        summary: Summary of the returned template, in one line.
        supports: Returns None, or the reason why the returned template cannot compute a problem. It receives the
            original problem, before sides are exchanged.
        space: The space function of ``straight``, which has an argument ``transposed``.
        lower_sides: Returns the kernel of a problem with exchanged sides, given the operands; it has an argument
            ``transposed``.
        box: Returns the shared-memory layout of a side.
    """
    straight_counts, straight_proxy = straight.counts, straight.proxy
    assert straight_counts is not None and straight_proxy is not None

    def turned_space(problem: Matmul, device: Device) -> Space:
        return space(exchanged(problem), device, transposed=True, name=name)

    def lower(problem: Matmul, config: Config, device: Device) -> GeneratedKernel:
        a, b, *rest = problem.operands()
        return lower_sides(exchanged(problem), (b, a, *rest), config, transposed=True)

    def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
        return straight_counts(exchanged(problem), config, device)

    def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
        return exchanged(straight_proxy(exchanged(problem), schedule))

    def drawings(problem: Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
        turned, element = exchanged(problem), problem.input_dtype.bytes
        return tuple(
            Drawing(f"a box of {other}", box(turned, config, side), element_bytes=element)
            for side, other in zip(SIDES, reversed(SIDES), strict=True)
        )

    return replace(
        straight,
        name=name,
        summary=summary,
        space=turned_space,
        lower=lower,
        supports=supports,
        counts=counts,
        proxy=proxy,
        drawings=drawings,
        content="sides exchanged",
    )
