"""Sampler that, in the last tenth of the trials, varies compiler controls of the fastest schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autosched.samplers.base import Sampler
from measurements.trials.measurement import Measurement
from search_spaces.launches.control_file import ControlFile
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import (
    CompilerControls,
    has_controls,
    neighbours,
    plain,
    register_caps,
)

ADVISER = "compiler_controls"  # sampler name that is stored for trials that use compiler controls
SHARE = 0.1  # fraction of the trials that vary compiler controls
INCUMBENTS = 3  # number of fastest schedules whose controls are varied
# after this many consecutive proposals with an expected gain below ``min_gain``, controls are varied early
_PATIENCE = 4


class ControlsSampler(Sampler):
    """Wraps a sampler. In the last tenth of the trials, varies compiler controls of the fastest schedules.

    One control of the fastest schedules so far is changed at a time. If the schedule becomes faster, the control is
    combined with a second control. The results are not reported to the wrapped sampler, because schedules with controls
    are not part of its space.

    Args:
        sampler: Wrapped sampler, which proposes all schedules without controls.
        task: Task of the search.
        trials: Number of trials of the run.
        files: Control files to try.
        min_gain: Controls are varied early if the expected gain of the wrapped sampler's proposals stays below this
            fraction of the best time.
    """

    has_controls = True

    def __init__(
        self,
        sampler: Sampler,
        task: SearchTask,
        trials: int,
        files: Sequence[ControlFile] = (),
        *,
        min_gain: float = 0.0,
    ) -> None:
        self.name = sampler.name
        self._sampler, self._task, self._files, self._min_gain = sampler, task, tuple(files), min_gain
        self._remaining = math.ceil(SHARE * trials)  # number of remaining proposals with controls
        self._own_remaining = trials - self._remaining
        self._num_small = 0  # number of consecutive proposals with an expected gain below min_gain
        self._seen: set[Schedule] = set()
        self._measurements: dict[Schedule, Measurement] = {}
        self._last_varied = False

    @property
    def expected_gain(self) -> float:
        """Expected gain of the wrapped sampler's last proposal; infinite after proposals with controls."""
        return math.inf if self._last_varied else self._sampler.expected_gain

    @property
    def num_guessed(self) -> int:
        """Number of schedules whose times the wrapped sampler estimated."""
        return self._sampler.num_guessed

    @property
    def batch(self) -> int:
        """Batch size of the wrapped sampler."""
        return self._sampler.batch

    def proposer(self, schedule: Schedule) -> str:
        """Return ADVISER for schedules with compiler controls, else the name given by the wrapped sampler."""
        return ADVISER if has_controls(schedule) else self._sampler.proposer(schedule)

    def ask(self, n: int) -> list[Schedule]:
        """Return proposals of the wrapped sampler; in the last trials, the fastest schedules with other controls."""
        first = self._own(n if n < 0 else min(n, self._own_remaining))
        varied = self._varied(n - len(first))
        self._last_varied = bool(varied)
        missing = n - len(first) - len(varied)
        return [*first, *varied, *(self._own(missing) if missing > 0 else ())]

    def _own(self, n: int) -> list[Schedule]:
        """Return proposals of the wrapped sampler."""
        proposals = self._sampler.ask(n)
        if n > 0:
            small = self._sampler.expected_gain < self._min_gain
            self._num_small = self._num_small + len(proposals) if small else 0
            self._own_remaining = max(0, self._own_remaining - len(proposals))
            if self._num_small >= _PATIENCE:
                self._own_remaining = 0
        return proposals

    def _varied(self, n: int) -> list[Schedule]:
        """Return at most ``n`` untried variants of the fastest schedules, each with one changed control."""
        proposals: list[Schedule] = []
        n = min(n, self._remaining)
        timed = [(m.timing.median, s) for s, m in self._measurements.items() if m.timing is not None]
        for _, base in sorted(timed, key=lambda item: item[0])[:INCUMBENTS] if n > 0 else ():
            for controls in neighbours(CompilerControls.of(base), self._caps(plain(base)), self._files):
                schedule = controls.on(base)
                if controls and schedule not in self._seen and len(proposals) < n:
                    self._seen.add(schedule)
                    proposals.append(schedule)
        self._remaining -= len(proposals)
        return proposals

    def _caps(self, schedule: Schedule) -> tuple[int, ...]:
        """Return register caps to try for a schedule; none if the schedule's number of registers is unknown."""
        measurement = self._measurements.get(schedule)
        if measurement is None or measurement.resources is None:
            return ()
        task, resources = self._task, measurement.resources
        kernel = task.templates.kernel(task.problem, schedule, task.device)
        shared = resources.static_shared_bytes + resources.dynamic_shared_bytes
        return register_caps(kernel, resources.registers, shared, task.device)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Record the result, and report it to the wrapped sampler if the schedule has no controls."""
        self._measurements[schedule] = measurement
        if has_controls(schedule):
            self._seen.add(schedule)
        else:
            self._sampler.tell(schedule, measurement)
