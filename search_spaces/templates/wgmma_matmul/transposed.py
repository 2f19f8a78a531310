"""The kernel template of matmuls of few rows by wgmma: out^T = b^T @ a^T.

wgmma multiplies 64 rows at a time, which few rows of a leave empty, but as few columns as 8. All functions are those of
``wgmma_matmul`` for the problem with sides exchanged: its m is n here, its a is b^T.
"""

from __future__ import annotations

from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.common.exchanged_sides import exchanged
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.template import KernelTemplate
from search_spaces.templates.wgmma_matmul import counts as straight_counts
from search_spaces.templates.wgmma_matmul import lowering
from search_spaces.templates.wgmma_matmul import proxy as straight_proxy
from search_spaces.templates.wgmma_matmul import space as straight_space
from search_spaces.templates.wgmma_matmul.problem import supports as straight_supports

MOST_ROWS = 64  # of a: from here on wgmma's 64 rows are full without exchanging sides


def supports(problem: Matmul, device: Device) -> str | None:
    """None, or in one sentence why this kernel cannot compute ``problem`` on ``device``."""
    reason = straight_supports(problem, device, through_registers="b")
    if reason is None and problem.scale == "block":
        return (
            "scales of blocks are those of rows of a, which are columns with sides exchanged: wgmma_matmul takes them"
        )
    if reason is None and problem.m > MOST_ROWS:
        return f"with sides exchanged wgmma computes at most {MOST_ROWS} rows, not {problem.m}: wgmma_matmul takes more"
    return reason


def space(problem: Matmul, device: Device) -> Space:
    """All schedules of ``problem`` on ``device``."""
    return straight_space.space(exchanged(problem), device, transposed=True)


def lower(problem: Matmul, config: Config, device: Device) -> Kernel:
    """Return the kernel of a valid config."""
    a, b, *rest = problem.operands()
    return lowering.lower_sides(exchanged(problem), (b, a, *rest), config, transposed=True)


def counts(problem: Matmul, config: Config, device: Device) -> CostCounts:
    """Return the cost counts of a valid config."""
    return straight_counts.counts(exchanged(problem), config, device)


def proxy(problem: Matmul, schedule: Schedule) -> Matmul:
    """``problem`` cut to a few tiles of ``schedule``."""
    return exchanged(straight_proxy.proxy(exchanged(problem), schedule))


def _drawings(problem: Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
    turned, element = exchanged(problem), problem.input_dtype.bytes
    return tuple(
        Drawing(f"a box of {other}", lowering.box(turned, config, side), element_bytes=element)
        for side, other in zip(SIDES, reversed(SIDES), strict=True)
    )


WGMMA_MATMUL_TRANSPOSED = KernelTemplate(
    name="wgmma_matmul_transposed",
    summary="few rows: out^T = b^T @ a^T by wgmma, with m and n, and a and b, exchanged (Hopper)",
    operators=("matmul",),
    source=lowering.SOURCE,
    space=space,
    lower=lower,
    supports=supports,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
    walk=lowering.WALK,
    content="sides exchanged",
)
