"""Time launches on one stream of a warm GPU.

Short launches are queued in CUDA graphs or while the stream is held, so that the times do not include host time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from measurements.runners.cuda.nvml import GpuState
from measurements.runners.cuda.stream_hold import StreamHold
from measurements.trials.timing_statistics import StopRule, unslowed

MAX_GRAPH = 4096  # maximum number of launches in one graph
# duration of a replay: much longer than the resolution of events (0.5 us), and than the time to queue the replay
_GRAPH_SECONDS = 2e-3
# Number of launches in the graph from which the time of one launch is estimated. The time of a single launch on an idle
# GPU would include the time in which the host queues the launch.
_ESTIMATED = 32
_CERTAIN_SECONDS = 100e-6  # for longer launches, the time in which the host queues them is negligible
_REPLAYS = 4  # timed replays, after one untimed replay
_BATCH_SECONDS = 10e-3
_MAX_BATCH = 20
# launches per group, and number of groups queued while the stream is held; a stream's queue has about 1000 entries
_HELD_CALLS, _HELD_GROUPS = 50, 5
# seconds, and maximum number of launch pairs, between two readings of the clock
_WARM_UP_SECONDS, _MOST_PAIRS = 5e-3, 100
_SPIN_UP_SECONDS = 0.1
# a clock below this fraction of the highest clock is still rising; a power limit does not lower the clock this far
_IDLE_CLOCK = 0.6
_POWER_SECONDS, _SETTLE_SECONDS = 1.0, 0.2
_MOST_QUEUED = 200  # maximum number of launches in the queue while the power is measured
_NOT_READY = 600  # cudaErrorNotReady

Work = Callable[[], None]


class LaunchTimeout(Exception):
    """A kernel exceeded its time limit. Because the kernel is still running, the process is unusable."""


class NoGraph(RuntimeError):
    """A launch cannot be captured in a CUDA graph."""


@dataclass(frozen=True)
class Captured:
    """A CUDA graph, and references to the functions and arrays that it uses, which the graph does not keep alive."""

    graph: Any
    work: list[Work]


def capture(stream: Any, work: list[Work]) -> Captured:
    """Capture ``work``, which is queued on ``stream``, as a graph. Raises NoGraph if some work cannot be captured."""
    stream.begin_capture()
    try:
        for piece in work:
            piece()
        return Captured(stream.end_capture(), work)
    except Exception as error:
        with suppress(Exception):  # end_capture raises the error that invalidated the capture
            stream.end_capture()
        raise NoGraph(str(error)) from error


class LaunchTimer:
    """Times launches on one stream of a GPU.

    Args:
        cp: The cupy module.
        stream: Stream of all work.
        state: Reads the GPU's clock and the reasons for slowdowns; None if unavailable.
        hold: Holds the stream while launches without a graph are queued; None if the stream cannot be held.
        host: Object with the host's clock and sleep functions; the module ``time`` by default.

    ``clock`` is the GPU's clock in MHz, as last read while the GPU was busy. ``slowdowns`` collects the reasons for
    slowdowns until the caller clears them. ``with_host`` is true if the last times may include host time.
    """

    def __init__(
        self, cp: Any, stream: Any, state: GpuState | None = None, hold: StreamHold | None = None, host: Any = None
    ) -> None:
        self._cp = cp
        self._stream = stream
        self._state = state or GpuState()
        self._hold = hold
        self.host = host or time
        self._highest = 0.0  # highest clock so far, in MHz
        self._spun_up = False
        self.clock: float | None = None
        self.slowdowns: set[str] = set()
        self.with_host = False

    def wait(self, limit: float) -> None:
        """Wait until the stream is idle, for at most ``limit`` seconds.

        Raises LaunchTimeout, and CUDA's error if a launch failed.
        """
        event = self._cp.cuda.Event(disable_timing=True)
        event.record(self._stream)
        began = self.host.perf_counter()
        while True:
            # Events are queried directly, because Event.done does not distinguish a failed event from a pending event.
            status = self._cp.cuda.runtime.eventQuery(event.ptr)
            if status == 0:
                return
            if status != _NOT_READY:
                event.synchronize()  # raises the error that the query returned
            passed = self.host.perf_counter() - began
            if passed > limit:
                raise LaunchTimeout(f"a launch did not finish within {limit:g} s")
            if passed > 1e-3:
                self.host.sleep(1e-4)

    def timed(
        self,
        limit: float,
        work: list[Work],
        lead: Work | None = None,
        *,
        held: bool = False,
        before: Work | None = None,
    ) -> list[float]:
        """Return the GPU time of each piece of ``work`` in seconds.

        Args:
            limit: Time limit for all work together, in seconds.
            work: Work to time, queued without gaps.
            lead: Untimed work that takes longer than queueing the first piece, or None.
            held: If True, the stream is held until everything is queued.
            before: Untimed work queued before each piece, or None.

        Returns: Seconds of each piece of work.

        Raises:
            LaunchTimeout: The work takes longer than ``limit``. CUDA's errors are also raised.
        """
        cuda = self._cp.cuda
        pairs = [(cuda.Event(), cuda.Event()) for _ in work]
        hold = self._hold if held else None
        if hold is not None:
            hold.hold()
        if lead is not None:
            lead()
        for (start, stop), piece in zip(pairs, work, strict=True):
            if before is not None:
                before()
            start.record(self._stream)
            piece()
            stop.record(self._stream)
        if hold is not None:
            hold.release()
        self._watch()  # read while the GPU is busy, because an idle GPU reports other clocks and reasons for slowdowns
        self.wait(limit)
        self.with_host = held and (hold is None or hold.gave_up)
        return [cuda.get_elapsed_time(start, stop) * 1e-3 for start, stop in pairs]

    def _watch(self) -> None:
        self.clock = self._state.clock()
        self.slowdowns.update(self._state.slowdowns())

    def _warmed_up(self, launch: Work, limit: float, before: Work | None = None) -> float:
        """Launch the kernel until the GPU's clock, if known, is high and no longer rises.

        The first warm-up lasts for _SPIN_UP_SECONDS, because the clock may take this long to rise, and until then NVML
        reports the idle clock. Returns the seconds of the fastest launch; if queueing takes longer than the kernel,
        this is the queueing time.
        """
        began, clock, fastest = self.host.perf_counter(), None, math.inf
        while True:
            until, pairs = self.host.perf_counter() + _WARM_UP_SECONDS, 0
            while not pairs or (self.host.perf_counter() < until and pairs < _MOST_PAIRS):
                fastest = min(fastest, *self.timed(2 * limit, [launch] * 2, before=before))
                pairs += 1
            earlier, clock = clock, self.clock
            self._highest = max(self._highest, clock or 0.0)
            rises = clock is not None and (earlier is None or clock > earlier)
            low = clock is not None and clock < _IDLE_CLOCK * self._highest
            spinning = self.host.perf_counter() - began <= _SPIN_UP_SECONDS
            if not (spinning and (rises or low or not self._spun_up)):
                self._spun_up = True
                return fastest

    def sampler(
        self, launch: Callable[[int], None], copies: int, limit: float, graph_below: float
    ) -> Callable[[], list[float]]:
        """Warm up the GPU and return a function that times more launches of the kernel.

        Args:
            launch: Queues the kernel on copy i of its operands.
            copies: Number of copies. Launches use the copies in rotation, so that no operand is in the L2 cache.
            limit: Time limit of a launch, in seconds.
            graph_below: Launches shorter than this, in seconds, are timed as CUDA graphs.

        Returns:
            A function that returns a list of times per launch in seconds; for short launches, each time is the mean
            over a graph.

        Raises:
            NoGraph: A short launch cannot be captured.
            LaunchTimeout: A launch takes longer than ``limit``. Errors of CUDA are raised unchanged.
        """
        next_launch = _rotating(launch, copies)
        single = max(self._warmed_up(next_launch, limit), 1e-6)
        if single >= graph_below:
            return self._launches(next_launch, single, limit)
        if single < _CERTAIN_SECONDS:
            # Because the GPU is already warm, one untimed replay before the timed replay suffices.
            graph = self._captured(next_launch, _ESTIMATED)
            single = self.timed(limit + 10 * _ESTIMATED * single, [graph], graph)[0] / _ESTIMATED
        # A graph uses every copy equally often. Otherwise the first copies of the next replay could still be in the L2
        # cache.
        count = copies * min(math.ceil(_GRAPH_SECONDS / single / copies), MAX_GRAPH // copies)
        return self._graph_of(next_launch, count, limit + 10 * count * single)

    def held_sampler(
        self, launch: Callable[[int], None], copies: int, limit: float, restore: Callable[[int], None] | None = None
    ) -> Callable[[], list[float]]:
        """Return a function that times launches without graphs: the stream is held until all launches are queued.

        Args:
            launch: Queues the kernel on copy i of its operands.
            copies: Number of copies.
            limit: Time limit of a launch, in seconds.
            restore: Restores the operands of a copy before each launch, untimed; None if no restoring is needed.

        Returns:
            A function that returns a list of times per launch in seconds.

        Raises:
            LaunchTimeout: A launch takes longer than ``limit``. Errors of CUDA are raised unchanged.
        """
        next_launch = _rotating(launch, copies)
        if restore is not None:
            before = _rotating(restore, copies)
            single = max(self._warmed_up(next_launch, limit, before), 1e-6)
            batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MAX_BATCH)
            limit += 10 * batch * single
            return lambda: self.timed(limit, [next_launch] * batch, held=True, before=before)
        single = max(self._warmed_up(next_launch, limit), 1e-6)
        count = min(math.ceil(_GRAPH_SECONDS / single), _HELD_CALLS)
        limit += 10 * (_HELD_GROUPS + 1) * count * single

        def group() -> None:
            for _ in range(count):
                next_launch()

        return lambda: [s / count for s in self.timed(limit, [group] * _HELD_GROUPS, group, held=True)]

    def mean_watts(self, launch: Callable[[int], None], copies: int, limit: float) -> float | None:
        """Return the GPU's mean power in watts over ``_POWER_SECONDS`` of launches of this kernel; None if unknown.

        NVML updates its power readings about ten times a second. Raises LaunchTimeout, and CUDA's errors.
        """
        next_launch = _rotating(launch, copies)
        single = max(self._warmed_up(next_launch, limit), 1e-6)
        batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MOST_QUEUED)
        limit += 10 * batch * single

        def busy(seconds: float) -> tuple[float, list[float]]:
            began, seen = self.host.perf_counter(), list[float]()
            while self.host.perf_counter() - began < seconds:
                for _ in range(batch):
                    next_launch()
                now = self._state.watts()  # the power is read while the GPU is busy
                seen += [] if now is None else [now]
                self.wait(limit)
            return self.host.perf_counter() - began, seen

        # the power that NVML reports is a mean over a preceding interval, which must not include idle time
        busy(_SETTLE_SECONDS)
        before = self._state.joules()
        took, seen = busy(_POWER_SECONDS)
        after = self._state.joules()
        if before is not None and after is not None and after > before:
            return (after - before) / took
        return sum(seen) / len(seen) if seen else None

    def _captured(self, launch: Work, count: int) -> Work:
        """Return a function that replays a graph of ``count`` launches. Raises NoGraph."""
        captured = capture(self._stream, [launch] * count)
        return lambda: captured.graph.launch(self._stream)

    def _graph_of(self, launch: Work, count: int, limit: float) -> Callable[[], list[float]]:
        """Return a function that replays a graph of ``count`` launches a few times and returns the times per launch."""
        began = self.host.perf_counter()
        replay = self._captured(launch, count)
        idle = self.host.perf_counter() - began

        def replays() -> list[float]:
            return [seconds / count for seconds in self.timed(limit, [replay] * _REPLAYS, replay)]

        began = self.host.perf_counter()
        replays()
        # replay until the clock, which fell while the graph was captured, is high again
        while self.host.perf_counter() - began < min(idle, _SPIN_UP_SECONDS):
            replays()
        return replays

    def _launches(self, launch: Work, single: float, limit: float) -> Callable[[], list[float]]:
        batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MAX_BATCH)
        limit += 10 * batch * single
        # An untimed launch keeps the GPU busy while the timed launches are queued.
        return lambda: self.timed(limit, [launch] * batch, launch)


@dataclass(frozen=True)
class Repeats:
    """Times of a kernel: ``seconds``, the GPU's last ``clock`` in MHz, and a note on anything unusual ("" if none)."""

    seconds: list[float]
    clock: float | None
    reason: str


def repeated(timer: LaunchTimer, sampler: Callable[[], list[float]], rule: StopRule, best: float | None) -> Repeats:
    """Take samples until ``rule`` has enough.

    Args:
        timer: Reports whether the GPU was slowed.
        sampler: Function that measures and returns more times.
        rule: Decides whether there are enough times, or the kernel is too slow to continue.
        best: Median time of the fastest kernel so far, or None.

    Returns:
        The times. Times measured while the GPU was throttled are excluded, unless the GPU was always throttled.
    """
    times: list[float] = []
    slowed: list[bool] = []
    seconds: list[float] = []  # seconds of repeats during which the GPU was not throttled
    why: set[str] = set()
    began = timer.host.perf_counter()

    def over() -> bool:
        elapsed = timer.host.perf_counter() - began
        late = bool(times) and elapsed >= rule.max_seconds
        return late or len(times) >= 2 * rule.max_repeats or rule.done(seconds, elapsed) or rule.hopeless(seconds, best)

    while not over():
        timer.slowdowns.clear()
        new = sampler()
        times += new
        slowed += [bool(timer.slowdowns)] * len(new)
        why |= timer.slowdowns
        seconds += [] if timer.slowdowns else new
    seconds = unslowed(times, slowed)
    notes = []
    if any(slowed):
        outcome = "excluded" if len(seconds) < len(times) else "included, because all were slowed"
        notes.append(f"{sum(slowed)} of {len(times)} repeats were slowed by {' and '.join(sorted(why))}: {outcome}")
    if rule.hopeless(seconds, best):
        notes.append(f"repeated only {len(seconds)} times: over {rule.hopeless_factor:g} times slower than the best")
    return Repeats(seconds, timer.clock, "; ".join(notes))


def _rotating(launch: Callable[[int], None], copies: int) -> Work:
    next_index = 0

    def next_launch() -> None:
        nonlocal next_index
        launch(next_index % copies)
        next_index += 1

    return next_launch
