"""One run of a plan, which is made when it is asked for, and the only loop that makes runs."""

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
        name: Names it among the runs of its plan.
        make: Launches and compares with the oracle. It returns None if the run cannot say anything, for example because
            the blocks that ran need others. None instead of a function: the run is not made.
        role: What a cut of few tiles cannot stand for, and this run is for.
        absent: Why it is not made.
        run_by_first: Whether the first run is of this size, so that no other one is needed.
        flops: Operations of its blocks, if it is of a large size.
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
    """Make runs one after another, as far as the caller iterates.

    Args:
        planned: The runs; a generator may look at what came of one before it yields the next.
        budget: No run but the first starts after so many seconds; None for no limit.
        suppressions: Expected findings, which decide nothing.

    Yields:
        Each planned run with what came of it. None: it was not made (``absent`` is ``NO_TIME`` if for lack of time), or
        it cannot say anything.

    Raises:
        HostFailure: This machine cannot emulate.
        ValueError: Inputs that do not fit the launch.
    """
    started = time.monotonic()
    any_made = False
    for item in planned:
        if item.make is None or item.run_by_first:
            yield item, None
        elif any_made and budget is not None and time.monotonic() - started > budget:
            yield item._replace(absent=NO_TIME), None
        else:
            run = item.make()
            any_made = any_made or run is not None
            yield item, None if run is None else replace(without_expected(run, suppressions), name=item.name)


def without_expected(run: Run, suppressions: Sequence[Suppression]) -> Run:
    """Return a run without the findings that are expected; one that had only these is ok."""
    emulation = suppress(run.emulation, suppressions)
    if run.status != "findings" or emulation.status == "findings":
        return replace(run, emulation=emulation)
    return replace(run, emulation=emulation, status=emulation.status, reason=emulation.reason)


def results(made: Iterable[tuple[PlannedRun, Run | None]]) -> Iterator[Run]:
    """Yield the runs that were made."""
    return (run for _, run in made if run is not None)


def until_failure(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs up to the first one that is not ok; no later one is made."""
    for run in runs:
        yield run
        if run.status != "ok":
            return
