"""Timing launches on one stream, on a warm GPU: as CUDA graphs behind other work, so that no host is in the times."""

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

MAX_GRAPH = 4096  # launches in one graph
_GRAPH_SECONDS = (
    2e-3  # a replay is long against what events resolve, half a microsecond, and what the host takes for it
)
_ESTIMATED = 64  # launches of the graph that tells how long one takes: for one alone an idle GPU waits for the host
_CERTAIN_SECONDS = 100e-6  # of a launch in the warm-up: what an idle GPU waits for the host hardly counts beyond
_REPLAYS = 4  # that are timed behind one that is not
_BATCH_SECONDS = 10e-3
_MAX_BATCH = 20
_HELD_CALLS, _HELD_GROUPS = 50, 5  # that are queued while the stream is held: a stream takes about 1000 launches
_WARM_UP_SECONDS, _MOST_PAIRS = 5e-3, 100  # of launches, between two looks at the clock
_SPIN_UP_SECONDS = 0.1
_IDLE_CLOCK = 0.6  # of the highest: a clock below it has not risen yet; a limit of power keeps it above
_POWER_SECONDS, _SETTLE_SECONDS = 1.0, 0.2
_MOST_QUEUED = 200  # launches: while they run, the host looks at the power
_NOT_READY = 600  # cudaErrorNotReady

Work = Callable[[], None]


class LaunchTimeout(Exception):
    """A kernel exceeded its time limit. It is still running: the process is unusable."""


class NoGraph(RuntimeError):
    """A launch that cannot be part of a CUDA graph."""


@dataclass(frozen=True)
class Captured:
    """A CUDA graph and what it launches: the graph alone holds only handles and addresses, and keeps nothing alive."""

    graph: Any
    work: list[Work]


def capture(stream: Any, work: list[Work]) -> Captured:
    """Return a graph of ``work``, which goes to ``stream``. Raises NoGraph where something in it cannot be captured."""
    stream.begin_capture()
    try:
        for piece in work:
            piece()
        return Captured(stream.end_capture(), work)
    except Exception as error:
        with suppress(Exception):  # the capture must be ended, which raises the error that broke it
            stream.end_capture()
        raise NoGraph(str(error)) from error


class LaunchTimer:
    """Time launches on one stream of a GPU.

    Args:
        cp: The cupy module.
        stream: What everything runs on.
        state: Tells of the GPU's clock and why it is slowed; None where nothing does.
        hold: Keeps the stream from running while launches are queued that no graph takes; None where nothing can.
        host: Has the clock of this process and its sleep, as the module ``time``, which None stands for.

    ``clock``, the last one read while the GPU worked, in MHz; ``slowdowns``, why it was slowed since they were last
    cleared; ``with_host``, whether the last sampler's times may hold what the host took.
    """

    def __init__(
        self, cp: Any, stream: Any, state: GpuState | None = None, hold: StreamHold | None = None, host: Any = None
    ) -> None:
        self._cp = cp
        self._stream = stream
        self._state = state or GpuState()
        self._hold = hold
        self.host = host or time
        self._highest = 0.0  # clock so far
        self._spun_up = False
        self.clock: float | None = None
        self.slowdowns: set[str] = set()
        self.with_host = False

    def wait(self, limit: float) -> None:
        """Wait for the stream at most ``limit`` seconds. Raises LaunchTimeout, and CUDA's error if a launch failed."""
        event = self._cp.cuda.Event(disable_timing=True)
        event.record(self._stream)
        began = self.host.perf_counter()
        while True:
            # Not Event.done, which takes a failed event for one that is not ready.
            status = self._cp.cuda.runtime.eventQuery(event.ptr)
            if status == 0:
                return
            if status != _NOT_READY:
                event.synchronize()  # raises what the query says
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
        """Return the seconds that each piece of ``work`` takes on the GPU.

        Args:
            limit: Seconds for all of it.
            work: What to time. It is queued without a gap between the pieces.
            lead: Work that takes longer than to queue the first piece; it is not timed. None for none.
            held: Whether the stream is held until everything is queued.
            before: Is queued before each piece, and not timed; None for nothing.

        Raises:
            LaunchTimeout: It takes longer; and CUDA's errors.
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
        self._watch()  # now, while the GPU is busy: idle, it tells the clock and the reasons of an idle GPU
        self.wait(limit)
        self.with_host = held and (hold is None or hold.gave_up)
        return [cuda.get_elapsed_time(start, stop) * 1e-3 for start, stop in pairs]

    def _watch(self) -> None:
        self.clock = self._state.clock()
        self.slowdowns.update(self._state.slowdowns())

    def _warmed_up(self, launch: Work, limit: float, before: Work | None = None) -> float:
        """Launch until the GPU is warm: for a while, and on while its clock, where known, rises or is still low. The
        first time it takes as long as a clock may take to rise, as NVML repeats the idle clock before it does. Seconds
        of the fastest launch, and of what the host takes to queue one, if that is more."""
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
        """Return a function that times the kernel once more or some times more; the GPU is warm when this returns.

        Args:
            launch: Queues the kernel on copy i of its operands.
            copies: How many there are, visited equally often, so that none is found in the L2.
            limit: Seconds that a launch may take.
            graph_below: Launches of fewer seconds are timed as CUDA graphs.

        Returns:
            A function that gives seconds of one launch, each a mean over those of a graph.

        Raises:
            NoGraph: A short launch cannot be captured.
            LaunchTimeout: A launch takes longer than ``limit``; and CUDA's errors.
        """
        next_launch = _in_turn(launch, copies)
        single = max(self._warmed_up(next_launch, limit), 1e-6)
        if single >= graph_below:
            return self._launches(next_launch, single, limit)
        if single < _CERTAIN_SECONDS:
            single = self._graph_of(next_launch, _ESTIMATED, limit + 10 * _ESTIMATED * single)()[0]
        # A graph visits every copy equally often, else the next replay would find its first ones still in the L2.
        count = copies * min(math.ceil(_GRAPH_SECONDS / single / copies), MAX_GRAPH // copies)
        return self._graph_of(next_launch, count, limit + 10 * count * single)

    def held_sampler(
        self, launch: Callable[[int], None], copies: int, limit: float, restore: Callable[[int], None] | None = None
    ) -> Callable[[], list[float]]:
        """Return a function as ``sampler`` does, for what no graph takes: all launches are queued before the first
        begins.

        Args:
            launch: Queues the kernel on copy i of its operands.
            copies: How many there are.
            limit: Seconds that a launch may take.
            restore: Is called with the copy before each launch, and not timed; None where nothing is to be restored.

        Returns:
            A function that gives seconds of launches.

        Raises:
            LaunchTimeout: A launch takes longer than ``limit``; and CUDA's errors.
        """
        next_launch = _in_turn(launch, copies)
        if restore is not None:
            before = _in_turn(restore, copies)
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
        """Return what the GPU draws while it does nothing but this kernel, over ``_POWER_SECONDS``, as NVML renews its
        numbers some ten times a second; None where it has none. Raises LaunchTimeout, and CUDA's errors."""
        next_launch = _in_turn(launch, copies)
        single = max(self._warmed_up(next_launch, limit), 1e-6)
        batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MOST_QUEUED)
        limit += 10 * batch * single

        def busy(seconds: float) -> tuple[float, list[float]]:
            began, seen = self.host.perf_counter(), list[float]()
            while self.host.perf_counter() - began < seconds:
                for _ in range(batch):
                    next_launch()
                now = self._state.watts()  # while it works
                seen += [] if now is None else [now]
                self.wait(limit)
            return self.host.perf_counter() - began, seen

        busy(_SETTLE_SECONDS)  # NVML's power is a mean of the time before
        before = self._state.joules()
        took, seen = busy(_POWER_SECONDS)
        after = self._state.joules()
        if before is not None and after is not None and after > before:
            return (after - before) / took
        return sum(seen) / len(seen) if seen else None

    def _graph_of(self, launch: Work, count: int, limit: float) -> Callable[[], list[float]]:
        """Return times a launch as one of ``count`` in a graph that follows another replay of it on the busy stream."""
        began = self.host.perf_counter()
        captured = capture(self._stream, [launch] * count)
        idle = self.host.perf_counter() - began

        def replay() -> None:
            captured.graph.launch(self._stream)

        def replays() -> list[float]:
            return [seconds / count for seconds in self.timed(limit, [replay] * _REPLAYS, replay)]

        began = self.host.perf_counter()
        replays()
        while self.host.perf_counter() - began < min(idle, _SPIN_UP_SECONDS):  # the clock rises again
            replays()
        return replays

    def _launches(self, launch: Work, single: float, limit: float) -> Callable[[], list[float]]:
        batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MAX_BATCH)
        limit += 10 * batch * single
        # The first keeps the GPU busy while the others are queued, so it is not counted.
        return lambda: self.timed(limit, [launch] * batch, launch)


@dataclass(frozen=True)
class Repeats:
    """The ``seconds`` of a kernel, the ``clock`` of the last in MHz, and what is unusual about them, or ""."""

    seconds: list[float]
    clock: float | None
    reason: str


def repeated(timer: LaunchTimer, sampler: Callable[[], list[float]], rule: StopRule, best: float | None) -> Repeats:
    """Take as many times as ``rule`` wants.

    Args:
        timer: Says whether the GPU was slowed.
        sampler: Gives more times.
        rule: When there are enough, or no hope.
        best: The median of the fastest kernel so far; None for none.

    Returns:
        The times, without those that were taken while heat or the hardware slowed the GPU, unless there are no others.
    """
    times: list[float] = []
    slowed: list[bool] = []
    kept: list[float] = []  # those that were not slowed
    why: set[str] = set()
    began = timer.host.perf_counter()

    def over() -> bool:
        elapsed = timer.host.perf_counter() - began
        late = bool(times) and elapsed >= rule.max_seconds
        return late or len(times) >= 2 * rule.max_repeats or rule.done(kept, elapsed) or rule.hopeless(kept, best)

    while not over():
        timer.slowdowns.clear()
        new = sampler()
        times += new
        slowed += [bool(timer.slowdowns)] * len(new)
        why |= timer.slowdowns
        kept += [] if timer.slowdowns else new
    kept = unslowed(times, slowed)
    notes = []
    if any(slowed):
        what = "are left out" if len(kept) < len(times) else "are kept: none was not"
        notes.append(f"{sum(slowed)} of {len(times)} repeats, slowed by {' and '.join(sorted(why))}, {what}")
    if rule.hopeless(kept, best):
        notes.append(f"repeated {len(kept)} times only: over {rule.hopeless_factor:g} times slower than the best")
    return Repeats(kept, timer.clock, "; ".join(notes))


def _in_turn(launch: Callable[[int], None], copies: int) -> Work:
    turn = 0

    def next_launch() -> None:
        nonlocal turn
        launch(turn % copies)
        turn += 1

    return next_launch
