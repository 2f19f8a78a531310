"""A planned run of a verification, and the loop that executes all planned runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from autosched.verify.coverage import Role
from autosched.verify.run import Run
from measurements.emulator import Suppression, suppress

NO_TIME = "there was no time for it"


class PlannedRun(NamedTuple):
    """A named run of a plan.

    Attributes:
        name: Name, unique in its plan.
        make: Function that makes the run and compares its outputs with the oracle. The function returns None if the run
            is inconclusive, for example because its blocks depend on other blocks. If ``make`` is None, the run is
            skipped.
        role: Role of the run in a full verification; None for runs of a few tiles.
        absent: Reason why the run is skipped.
        run_by_first: True if this run is skipped because the plan's first run already has this size.
        flops: Floating-point operations of the emulated blocks, for runs at large sizes.
    """

    name: str
    make: Callable[[], Run | None] | None
    role: Role | None = None
    absent: str = ""
    run_by_first: bool = False
    flops: float = 0.0


def make_runs(
    planned: Iterable[PlannedRun], *, budget: float | None = None, suppressions: Sequence[Suppression] = ()
) -> Iterator[tuple[PlannedRun, Run | None]]:
    """Make runs one after another, lazily.

    Args:
        planned: The planned runs. A generator may choose the next run according to the result of a run.
        budget: Seconds after which no further run starts; the first run always starts. None for no limit.
        suppressions: Expected findings, which do not affect the verdict.

    Yields:
        Each planned run with its result. The result is None if the run was skipped or is inconclusive. ``absent`` is
        ``NO_TIME`` if the budget did not allow the run.

    Raises:
        HostFailure: This machine cannot run the emulator.
        ValueError: Inputs do not fit the launch.
    """
    started = time.monotonic()
    any_run = False
    for item in planned:
        if item.make is None or item.run_by_first:
            yield item, None
        elif any_run and budget is not None and time.monotonic() - started > budget:
            yield item._replace(absent=NO_TIME), None
        else:
            run = item.make()
            any_run = any_run or run is not None
            yield item, None if run is None else replace(without_expected(run, suppressions), name=item.name)


def without_expected(run: Run, suppressions: Sequence[Suppression]) -> Run:
    """Return a run without its expected findings. Its status becomes ok if no other finding remains."""
    emulation = suppress(run.emulation, suppressions)
    if run.status != "findings" or emulation.status == "findings":
        return replace(run, emulation=emulation)
    return replace(run, emulation=emulation, status=emulation.status, reason=emulation.reason)


def results(runs: Iterable[tuple[PlannedRun, Run | None]]) -> Iterator[Run]:
    """Yield the completed runs."""
    return (run for _, run in runs if run is not None)


def until_failure(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs up to and including the first run that is not ok. Later runs are not made."""
    for run in runs:
        yield run
        if run.status != "ok":
            return
