"""The kernel template of matmuls of few rows by tcgen05: out^T = b^T @ a^T.

All functions are those of ``tcgen05_matmul`` for the problem with sides exchanged: its m is n here, its a is b^T.
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
from search_spaces.templates.tcgen05_matmul import counts as straight_counts
from search_spaces.templates.tcgen05_matmul import lowering
from search_spaces.templates.tcgen05_matmul import proxy as straight_proxy
from search_spaces.templates.tcgen05_matmul import space as straight_space
from search_spaces.templates.tcgen05_matmul.problem import supports as straight_supports
from search_spaces.templates.template import KernelTemplate

MOST_ROWS = 128  # of a: from here on the 128 rows of tcgen05 are full without exchanging sides


def supports(problem: Matmul, device: Device) -> str | None:
    """None, or in one sentence why this kernel cannot compute ``problem`` on ``device``."""
    if problem.scale == "block":
        return (
            "scales of blocks are those of rows of a, which are columns with sides exchanged: tcgen05_matmul takes them"
        )
    if problem.blocks:
        return f"block scales of {problem.a} come for 128 columns at a time, as many as rows: tcgen05_matmul takes them"
    if problem.m > MOST_ROWS:
        return (
            f"with sides exchanged tcgen05 computes at most {MOST_ROWS} rows, not {problem.m}: tcgen05_matmul takes "
            "more"
        )
    return straight_supports(problem, device)


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


TCGEN05_MATMUL_TRANSPOSED = KernelTemplate(
    name="tcgen05_matmul_transposed",
    summary="few rows: out^T = b^T @ a^T by tcgen05, with m and n, and a and b, exchanged (Blackwell)",
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
