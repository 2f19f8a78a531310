"""One run of a plan, which is made when it is asked for, and the plan of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from autosched.verify.coverage import Role
from autosched.verify.run import Run
from search_spaces.launches.generated_kernel import GeneratedKernel

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands


class PlannedRun(NamedTuple):
    """A run of a plan. ``make`` makes it; None where it cannot be made, for the reason ``absent``, or need not be:
    ``run_by_first`` says that the first runs are of this size. ``role``: what a cut of few tiles cannot stand for, and
    this run is for. ``flops``: of its blocks, where it is of a large size."""

    name: str
    make: Callable[[], Run] | None
    role: Role | None = None
    absent: str = ""
    run_by_first: bool = False
    flops: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The runs of a verification of ``kernel``, in order. They are made lazily, and can be iterated once."""

    runs: Iterator[PlannedRun]
    kernel: GeneratedKernel

    def __iter__(self) -> Iterator[PlannedRun]:
        return self.runs


def fewer_blocks(kernel: GeneratedKernel) -> GeneratedKernel:
    """``kernel`` as a GPU launches it on which two thirds of its clusters run at a time, where its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))
