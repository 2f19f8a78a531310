"""Happens-before order of a program's host and its streams, as defined by CUDA's programming guide.

An emulated program executes its work immediately, in the order of the calls. This module decides whether CUDA also
guarantees this order. Two uses of the same bytes, at least one of them a write, are a race unless a stream, an event or
a wait of the host orders them. Each stream has a vector clock. All threads of the host share one clock, because their
synchronisation is unknown.

Sessions of executables and of Triton programs report the program's actions to ``HostOrder``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

Clock = dict[int, int]  # vector clock of a point in time: for each timeline, the number of actions that happened before
Ranges = npt.NDArray[np.int64]  # rows (first byte, end) of disjoint ranges, in ascending order

HOST = 0
LEGACY = 1  # the legacy default stream; this stream and blocking streams wait for each other
_MOST_USES = 512  # maximum number of uses that are remembered per allocation


class Use(IntFlag):
    """Kind of a memory access. Two strong accesses (atomic, volatile, relaxed) do not race with each other."""

    READ = 1
    WRITE = 2
    STRONG = 4


@dataclass(frozen=True, eq=False)
class HostAccess:
    """One access to memory.

    Attributes:
        timeline: The timeline of the stream, or ``HOST``.
        time: Time on that timeline's clock.
        use: Kind of access.
        ranges: Addresses.
        by: Description of the operation, for messages.
    """

    timeline: int
    time: int
    use: Use
    ranges: Ranges
    by: Any


@dataclass(frozen=True, eq=False)
class HostRace:
    """Two unordered uses of the same bytes.

    Attributes:
        earlier: The use by the operation that the program called first.
        later: The use by the operation that the program called second.
        first: The lowest address that both use.
        end: End of the contiguous range, starting at ``first``, that both use.
    """

    earlier: HostAccess
    later: HostAccess
    first: int
    end: int


def one_range(first: int, end: int) -> Ranges:
    """Return ranges with a single range: the bytes from ``first`` up to ``end`` (exclusive)."""
    return np.array([[first, end]], np.int64)


class HostOrder:
    """Vector clocks of the host and its streams, and pending uses of memory, for which the host has not waited."""

    def __init__(self) -> None:
        self._clocks: dict[int, Clock] = {HOST: {HOST: 0}, LEGACY: {LEGACY: 0}}
        self._blocking: set[int] = set()
        self._nodes: set[int] = set()  # timelines of graph nodes
        self._next = LEGACY + 1
        self._destroyed: Clock = {}  # merged clocks of destroyed streams
        self._destroyed_blocking: Clock = {}
        self._uses: dict[int, list[HostAccess]] = {}  # pending uses, by allocation

    # Streams --------------------------------------------------------------------------------------------------------

    def add_stream(self, *, blocking: bool) -> int:
        """Create a stream and return its timeline. Blocking streams and the legacy stream wait for each other."""
        stream, self._next = self._next, self._next + 1
        self._clocks[stream] = {stream: 0}
        if blocking:
            self._blocking.add(stream)
        return stream

    def destroy_stream(self, stream: int) -> None:
        """Remove a stream; its pending work still completes."""
        clock = self._clocks.pop(stream, None)
        if clock is None:
            return
        _join(self._destroyed, clock)
        if stream in self._blocking:
            self._blocking.remove(stream)
            _join(self._destroyed_blocking, clock)

    def begin(self, stream: int) -> None:
        """Add work to a stream. The work happens after everything for which the host has waited."""
        clock = self._clocks[stream]
        if stream in self._nodes:
            clock[stream] += 1
            return
        if stream == LEGACY:
            for other in self._blocking:
                _join(clock, self._clocks[other])
            _join(clock, self._destroyed_blocking)
        elif stream in self._blocking:
            _join(clock, self._clocks[LEGACY])
        _join(clock, self._clocks[HOST])
        clock[stream] += 1

    def add_nodes(self) -> int:
        """Return a new timeline for graph nodes. Waits of the host do not order graph nodes."""
        timeline, self._next = self._next, self._next + 1
        self._clocks[timeline] = {timeline: 0}
        self._nodes.add(timeline)
        return timeline

    def begin_node(self, timeline: int, after: Iterable[Clock]) -> None:
        """Order the next node of a timeline after the timeline's earlier nodes and after the given clocks."""
        clock = self._clocks[timeline]
        for other in after:
            _join(clock, other)

    def clock(self, stream: int) -> Clock:
        """Return the vector clock of a stream: the actions that happen before the stream's next operation."""
        return dict(self._clocks[stream])

    def record(self, stream: int) -> Clock:
        """Record an event on a stream, and return the event's clock."""
        self.begin(stream)
        return dict(self._clocks[stream])

    def wait(self, stream: int, event: Clock) -> None:
        """Make future work of a stream wait for an event."""
        self.begin(stream)
        _join(self._clocks[stream], event)

    def wait_for_all(self, stream: int) -> None:
        """Make future work of a stream wait for all work of all streams."""
        self.begin(stream)
        for clock in list(self._clocks.values()):
            _join(self._clocks[stream], clock)
        _join(self._clocks[stream], self._destroyed)

    # Waits of the host ----------------------------------------------------------------------------------------------

    def synchronize(self, stream: int) -> None:
        """Make the host wait for a stream. Waiting for the legacy stream also waits for all blocking streams."""
        if stream == LEGACY:
            self.begin(stream)
        _join(self._clocks[HOST], self._clocks[stream])

    def synchronize_event(self, event: Clock) -> None:
        """Make the host wait for an event."""
        _join(self._clocks[HOST], event)

    def synchronize_device(self) -> None:
        """Make the host wait for all streams."""
        for stream, clock in self._clocks.items():
            if stream != HOST:
                _join(self._clocks[HOST], clock)
        _join(self._clocks[HOST], self._destroyed)
        self._uses.clear()

    # Uses of memory -------------------------------------------------------------------------------------------------

    def use(self, timeline: int, block: int, use: Use, ranges: Ranges, by: Any) -> HostRace | None:
        """Check a use of memory for races, and remember it if the user is a stream.

        Args:
            timeline: Stream or host that uses the memory.
            block: The allocation; uses of different allocations are disjoint.
            use: Kind of access.
            ranges: Addresses.
            by: The user of the memory, for messages.

        Returns:
            The race with the first unordered earlier use; None if all are ordered.
        """
        clock = self._clocks[timeline]
        access = HostAccess(timeline, clock[timeline], use, ranges, by)
        earlier = [] if (known := self._uses.get(block)) is None else known
        race = next(self._races(access, clock, earlier), None)
        if timeline != HOST:
            host = self._clocks[HOST]
            # A use for which the host has waited cannot race with later work. If a stream uses the same range again,
            # the new use replaces the earlier one.
            earlier = [a for a in earlier if not _before(a, host) and not _repeats(access, a)]
            self._uses[block] = [*earlier[-_MOST_USES + 1 :], access]
        return race

    @staticmethod
    def _races(access: HostAccess, clock: Clock, earlier: list[HostAccess]) -> Iterator[HostRace]:
        for other in earlier:
            if _conflict(access.use, other.use) and not _before(other, clock):
                common = _common(access.ranges, other.ranges)
                if common is not None:
                    yield HostRace(other, access, *common)

    def pending(self, block: int) -> list[HostAccess]:
        """Return the uses of an allocation that may be unfinished, because the host has not waited for them."""
        host = self._clocks[HOST]
        return [access for access in self._uses.get(block, ()) if not _before(access, host)]

    def pending_blocks(self) -> list[int]:
        """Return the allocations that may still be in use by work for which the host has not waited."""
        return list(self._uses)

    def forget(self, block: int) -> list[HostAccess]:
        """Forget a freed allocation. Return its uses for which the host has not waited."""
        pending = self.pending(block)
        self._uses.pop(block, None)
        return pending

    def inherit(self, block: int, accesses: list[HostAccess], ranges: Ranges) -> None:
        """Record that an allocation reuses freed memory.

        Pending uses of this memory then count as uses of the whole allocation.

        Args:
            block: The new allocation.
            accesses: Result of ``forget`` for the freed allocation.
            ranges: Bytes of the new allocation.
        """
        self._uses[block] = [HostAccess(a.timeline, a.time, a.use, ranges, a.by) for a in accesses]

    def knows(self, timeline: int, access: HostAccess) -> bool:
        """Return True if an access happened before the next operation on a timeline."""
        return _before(access, self._clocks[timeline])


def _join(clock: Clock, other: Mapping[int, int]) -> None:
    for timeline, time in other.items():
        if time > clock.get(timeline, 0):
            clock[timeline] = time


def _before(access: HostAccess, clock: Clock) -> bool:
    return access.time <= clock.get(access.timeline, 0)


def _conflict(a: Use, b: Use) -> bool:
    return bool((a | b) & Use.WRITE) and not a & b & Use.STRONG


def _repeats(access: HostAccess, earlier: HostAccess) -> bool:
    return (
        access.timeline == earlier.timeline
        and access.use == earlier.use
        and access.ranges.shape == earlier.ranges.shape
        and bool((access.ranges == earlier.ranges).all())
    )


def _common(a: Ranges, b: Ranges) -> tuple[int, int] | None:
    """Return the lowest range of bytes that two lists of ranges have in common."""
    if len(a) == 1 and len(b) == 1:
        first, end = max(a[0, 0], b[0, 0]), min(a[0, 1], b[0, 1])
        return (int(first), int(end)) if first < end else None
    if len(a) > len(b):
        a, b = b, a
    # Index of the first range of b that ends after the start of the range of a.
    after = np.searchsorted(b[:, 1], a[:, 0], side="right")
    meets = after < len(b)
    meets[meets] = b[after[meets], 0] < a[meets, 1]
    if not meets.any():
        return None
    k = int(np.argmax(meets))
    other = b[after[k]]
    return int(max(a[k, 0], other[0])), int(min(a[k, 1], other[1]))
