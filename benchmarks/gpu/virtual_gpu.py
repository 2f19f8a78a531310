"""A simulated GPU and host with virtual time, on which the unmodified timing code runs.

Host calls take time and are sometimes delayed. Events have a limited resolution. An idle GPU starts a launch with a
delay. The clock falls when the GPU is idle and rises under load. The power limit lowers the clock within milliseconds;
at times, heat lowers it too. ``steady`` is the true time of a kernel: the time per launch in an endless sequence of
launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from measurements.runners.cuda.nvml import SLOWDOWNS, GpuState
from measurements.runners.cuda.stream_hold import GIVES_UP_SECONDS

HIGHEST_MHZ, IDLE_MHZ = 1980.0, 345.0
# Time constants, in seconds, with which the clock rises under load, falls when idle, and falls because of the power
# limit.
RISES, FALLS_IDLE, POWER = 8e-3, 50e-3, 4e-3
IDLE_AFTER = 20e-3  # seconds without work after which the GPU counts as idle
HOT = 0.6  # factor by which heat lowers the clock
# Seconds that the GPU needs: to start a launch when idle, between two launches, between two launches of a graph, for an
# event.
BEGINS, GAP, GRAPH_GAP, EVENT = 3e-6, 0.7e-6, 1.2e-6, 0.5e-6
TICK = 0.5e-6  # resolution of events, in seconds
STEP = 100e-6  # interval at which the clock is updated, in seconds
NOT_READY = 600


@dataclass(frozen=True)
class VirtualKernel:
    """A kernel that takes ``seconds`` at the highest clock.

    The power limit lowers the clock by the factor ``sustained``.
    """

    seconds: float
    sustained: float = 1.0

    @property
    def steady(self) -> float:
        return self.seconds / self.sustained + GAP


@dataclass
class Host:
    """Replacement for module ``time`` in timing code. ``late`` is the probability that a call is delayed by 0.2 ms."""

    rng: np.random.Generator
    late: float = 0.003
    now: float = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 60e-6

    def spend(self, seconds: float) -> None:
        self.now += seconds * self.rng.lognormal(0.0, 0.3) + (200e-6 if self.rng.random() < self.late else 0.0)


@dataclass
class VirtualGpu:
    """The GPU. ``cupy`` replaces the functions of cupy that ``launch_timer`` uses; ``state`` replaces reports of NVML.

    ``hot`` lists the intervals in which heat lowers the clock.
    """

    seed: int = 0
    hot: tuple[tuple[float, float], ...] = ()
    launch_seconds: float = 4e-6  # host time of a launch from Python
    host: Host = field(init=False)
    free: float = 0.0  # time at which the stream has finished all its work
    mhz: float = IDLE_MHZ
    captured: list[VirtualKernel] | None = None

    def __post_init__(self) -> None:
        self.host = Host(np.random.default_rng(self.seed))
        self._held: list[Callable[[], None]] | None = None
        self._seen = 0.0  # time of the last update of the clock
        self._released, self.gave_up = 0.0, False
        self.stream = SimpleNamespace(begin_capture=self._begin_capture, end_capture=self._end_capture)
        runtime = SimpleNamespace(eventQuery=lambda event: self._query(event))
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                Event=lambda **_: VirtualEvent(self),
                runtime=runtime,
                get_elapsed_time=lambda start, stop: (stop.at - start.at) * 1e3,
            )
        )
        self.state = GpuState(self._clock, self._slowdowns)

    # ---- host ----

    def launch(self, kernel: VirtualKernel) -> None:
        """Launch a kernel from Python, in the stream or in the graph that is being captured."""
        self.host.spend(self.launch_seconds)
        if self.captured is not None:
            self.captured.append(kernel)
        else:
            self._queue(lambda: self._run((kernel,), GAP))

    def record(self, event: VirtualEvent) -> None:
        self.host.spend(0.8e-6)
        self._queue(lambda: self._mark(event))

    def hold(self) -> None:
        self.host.spend(self.launch_seconds)
        self._held, self._held_at, self.gave_up = [], self.host.now, False

    def release(self) -> None:
        self.gave_up = self.host.now - self._held_at > GIVES_UP_SECONDS
        waiting, self._held = self._held or [], None
        self._work_until(max(self.free, self.host.now))
        for work in waiting:
            work()

    def _queue(self, work: Callable[[], None]) -> None:
        if self._held is not None:
            self._held.append(work)
        else:
            work()

    def _begin_capture(self) -> None:
        self.captured = []

    def _end_capture(self) -> VirtualGraph:
        kernels, self.captured = self.captured or [], None
        self.host.spend(10e-6 + 0.5e-6 * len(kernels))
        return VirtualGraph(self, tuple(kernels))

    def _query(self, event: VirtualEvent) -> int:
        self.host.spend(1e-6)
        return 0 if event.at <= self.host.now else NOT_READY

    def _clock(self) -> float:
        self.host.spend(30e-6)
        return self._lowered(self.host.now) * (self.mhz if self.host.now < self.free + IDLE_AFTER else IDLE_MHZ)

    def _slowdowns(self) -> tuple[str, ...]:
        self.host.spend(30e-6)
        return (SLOWDOWNS[0x20],) if self._lowered(self.host.now) < 1.0 else ()

    # ---- GPU ----

    def _lowered(self, at: float) -> float:
        return HOT if any(start <= at < end for start, end in self.hot) else 1.0

    def _towards(self, target: float, constant: float, seconds: float) -> None:
        self.mhz += (target - self.mhz) * (1.0 - math.exp(-seconds / constant))

    def _idle_until(self, at: float) -> None:
        idle = at - self.free
        if idle > 0:
            # the power limit does not apply when idle, so the clock rises
            self._towards(HIGHEST_MHZ, POWER, min(idle, IDLE_AFTER))
            if idle > IDLE_AFTER:
                self._towards(IDLE_MHZ, FALLS_IDLE, idle - IDLE_AFTER)
            self.free = at

    def _work_until(self, at: float) -> None:
        self.free = max(self.free, at)

    def _mark(self, event: VirtualEvent) -> None:
        self._idle_until(self.host.now + BEGINS)
        event.at = math.floor(self.free / TICK) * TICK
        self.free += EVENT

    def _run(self, kernels: tuple[VirtualKernel, ...], gap: float) -> None:
        self._idle_until(self.host.now + BEGINS)
        self.free += gap - GAP
        for kernel, count in _runs(kernels):
            left = kernel.seconds * count
            gaps = GAP * count / left if left else 0.0
            while left > 1e-15:
                speed = self.mhz / HIGHEST_MHZ * self._lowered(self.free)
                done = min(left, STEP * speed)
                seconds = done / speed + gaps * done
                target = HIGHEST_MHZ * kernel.sustained
                self._towards(target, POWER if target < self.mhz else RISES, seconds)
                self.free += seconds
                left -= done


@dataclass
class VirtualEvent:
    gpu: VirtualGpu
    at: float = math.inf

    @property
    def ptr(self) -> VirtualEvent:
        return self

    def record(self, stream: Any) -> None:
        self.gpu.record(self)


@dataclass(frozen=True)
class VirtualGraph:
    gpu: VirtualGpu
    kernels: tuple[VirtualKernel, ...]

    def launch(self, stream: Any) -> None:
        gpu = self.gpu
        gpu.host.spend(8e-6 + 0.01e-6 * len(self.kernels))
        gpu._queue(lambda: gpu._run(self.kernels, GRAPH_GAP))


def _runs(kernels: tuple[VirtualKernel, ...]) -> list[tuple[VirtualKernel, int]]:
    """Return each run of equal consecutive values as (value, length)."""
    runs: list[tuple[VirtualKernel, int]] = []
    for kernel in kernels:
        if runs and runs[-1][0] == kernel:
            runs[-1] = (kernel, runs[-1][1] + 1)
        else:
            runs.append((kernel, 1))
    return runs
