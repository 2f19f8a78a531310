"""Timing launches on one stream, on a warm GPU: by events, short ones through a CUDA graph."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_GRAPH = 4096  # launches in one graph
_GRAPH_SECONDS = 2e-3  # a replay is long against the resolution of events, half a microsecond
_BATCH_SECONDS = 10e-3
_MAX_BATCH = 20
_WARM_UP_SECONDS, _MOST_PAIRS = 5e-3, 100  # of launches, between two looks at the clock
_SPIN_UP_SECONDS = 0.1
_IDLE_CLOCK = 0.6  # of the highest: a clock below it has not risen yet; a limit of power keeps it above
_NOT_READY = 600  # cudaErrorNotReady


class LaunchTimeout(Exception):
    """A kernel exceeded its time limit. It is still running: the process is unusable."""


class NoGraph(RuntimeError):
    """A launch that cannot be part of a CUDA graph."""


@dataclass(frozen=True)
class Captured:
    """A CUDA graph and what it launches: the graph alone holds only handles and addresses, and keeps nothing alive."""

    graph: Any
    work: list[Callable[[], None]]


def capture(stream: Any, work: list[Callable[[], None]]) -> Captured:
    """A graph of ``work``, which goes to ``stream``. Raises NoGraph where something in it cannot be captured."""
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
    """``cp`` is the cupy module, ``clock`` a reader of the SM clock in MHz; everything runs on ``stream``."""

    def __init__(self, cp: Any, stream: Any, clock: Callable[[], float | None]) -> None:
        self._cp = cp
        self._stream = stream
        self._clock = clock
        self._highest = 0.0  # clock so far
        self._spun_up = False

    def wait(self, limit: float) -> None:
        """Wait for the stream at most ``limit`` seconds. Raises LaunchTimeout, and CUDA's error if a launch failed."""
        event = self._cp.cuda.Event(disable_timing=True)
        event.record(self._stream)
        began = time.perf_counter()
        while True:
            # Not Event.done, which takes a failed event for one that is not ready.
            status = self._cp.cuda.runtime.eventQuery(event.ptr)
            if status == 0:
                return
            if status != _NOT_READY:
                event.synchronize()  # raises what the query says
            passed = time.perf_counter() - began
            if passed > limit:
                raise LaunchTimeout(f"a launch did not finish within {limit:g} s")
            if passed > 1e-3:
                time.sleep(1e-4)

    def _timed(
        self, limit: float, work: list[Callable[[], None]], before: Callable[[], None] | None = None
    ) -> list[float]:
        """Seconds on the GPU of each piece of ``work``, queued without a gap between them, but for ``before``, which
        is queued before each and not timed."""
        cuda = self._cp.cuda
        pairs = [(cuda.Event(), cuda.Event()) for _ in work]
        for (start, stop), piece in zip(pairs, work, strict=True):
            if before is not None:
                before()
            start.record(self._stream)
            piece()
            stop.record(self._stream)
        self.wait(limit)
        return [cuda.get_elapsed_time(start, stop) * 1e-3 for start, stop in pairs]

    def _warmed_up(self, launch: Callable[[], None], limit: float, restore: Callable[[], None] | None = None) -> float:
        """Launch until the GPU is warm: for a while, and on while its clock, where known, rises or is still low. The
        first time it takes as long as a clock may take to rise, as NVML repeats the idle clock before it does. Seconds
        of the fastest launch."""
        began, clock, fastest = time.perf_counter(), None, math.inf
        while True:
            until, pairs = time.perf_counter() + _WARM_UP_SECONDS, 0
            while not pairs or (time.perf_counter() < until and pairs < _MOST_PAIRS):
                fastest = min(fastest, *self._timed(2 * limit, [launch] * 2, restore))
                pairs += 1
            before, clock = clock, self._clock()
            self._highest = max(self._highest, clock or 0.0)
            rises = clock is not None and (before is None or clock > before)
            low = clock is not None and clock < _IDLE_CLOCK * self._highest
            spinning = time.perf_counter() - began <= _SPIN_UP_SECONDS
            if not (spinning and (rises or low or not self._spun_up)):
                self._spun_up = True
                return fastest

    def sampler(
        self,
        launch: Callable[[int], None],
        copies: int,
        limit: float,
        graph_below: float,
        restore: Callable[[int], None] | None = None,
    ) -> Callable[[], list[float]]:
        """A function that times the kernel once more or some times more; the GPU is warm when this returns.

        ``restore`` is called with the copy before each launch, outside the clock; no graph is captured then.
        """
        turn = 0

        def restored() -> None:
            if restore is not None:
                restore(turn % copies)

        before = None if restore is None else restored

        def next_launch() -> None:
            nonlocal turn
            launch(turn % copies)
            turn += 1

        single = max(self._warmed_up(next_launch, limit, before), 1e-6)

        if restore is None and single < graph_below:
            # A graph visits every copy equally often, else the next replay would find its first ones still in the L2.
            count = copies * min(math.ceil(_GRAPH_SECONDS / single / copies), MAX_GRAPH // copies)
            captured = capture(self._stream, [next_launch] * count)
            limit += 10 * count * single

            def replay() -> list[float]:
                return [self._timed(limit, [lambda: captured.graph.launch(self._stream)])[0] / count]

            replay()
            return replay

        batch = min(max(math.ceil(_BATCH_SECONDS / single), 1), _MAX_BATCH)
        limit += 10 * batch * single

        def launches() -> list[float]:
            # The first keeps the GPU busy while the others are queued, so it is not counted.
            return self._timed(limit, [next_launch] * (batch + 1), before)[1:]

        return launches
