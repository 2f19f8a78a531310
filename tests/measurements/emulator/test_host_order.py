"""Memory accesses by the host and by streams race unless one of several mechanisms orders them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from measurements.emulator.host_order import HOST, LEGACY, HostOrder, HostRace, Use, one_range

BLOCK = 1


def used(order: HostOrder, timeline: int, use: Use, first: int = 0, end: int = 8) -> HostRace | None:
    return used_rows(order, timeline, use, [[first, end]])


def used_rows(order: HostOrder, timeline: int, use: Use, rows: list[list[int]]) -> HostRace | None:
    if timeline != HOST:
        order.begin(timeline)
    return order.use(timeline, BLOCK, use, np.array(rows, np.int64), f"{timeline}")


def two_streams() -> tuple[HostOrder, int, int]:
    order = HostOrder()
    return order, order.add_stream(blocking=False), order.add_stream(blocking=False)


def by_event(order: HostOrder, a: int, b: int) -> None:
    order.wait(b, order.record(a))


def by_third_stream(order: HostOrder, a: int, b: int) -> None:
    third = order.add_stream(blocking=False)
    order.wait(third, order.record(a))
    order.wait(b, order.record(third))


def by_stream(order: HostOrder, a: int, b: int) -> None:
    order.synchronize(a)


def by_device(order: HostOrder, a: int, b: int) -> None:
    order.synchronize_device()


def by_host_event(order: HostOrder, a: int, b: int) -> None:
    order.synchronize_event(order.record(a))


def destroyed(order: HostOrder, a: int, b: int) -> None:
    order.destroy_stream(a)
    order.synchronize_device()


@pytest.mark.parametrize("how", [by_event, by_third_stream, by_stream, by_device, by_host_event, destroyed])
def test_two_streams_are_ordered(how: Callable[[HostOrder, int, int], None]) -> None:
    order, a, b = two_streams()
    assert used(order, a, Use.WRITE) is None
    how(order, a, b)
    assert used(order, b, Use.READ) is None


def unrecorded_event(order: HostOrder, a: int, b: int) -> None:
    order.wait(b, {})


def wrong_way(order: HostOrder, a: int, b: int) -> None:
    order.wait(a, order.record(b))


def waits_for_itself(order: HostOrder, a: int, b: int) -> None:
    order.synchronize(b)


def legacy_in_between(order: HostOrder, a: int, b: int) -> None:
    """Start work on the legacy stream, which does not order the non-blocking streams a and b."""
    order.begin(LEGACY)


@pytest.mark.parametrize("how", [unrecorded_event, wrong_way, waits_for_itself, legacy_in_between])
def test_two_streams_race(how: Callable[[HostOrder, int, int], None]) -> None:
    order, a, b = two_streams()
    used(order, a, Use.WRITE, 0, 8)
    how(order, a, b)
    race = used(order, b, Use.READ, 4, 16)
    assert race is not None and (race.first, race.end) == (4, 8)
    assert (race.earlier.by, race.later.by) == (str(a), str(b))


@pytest.mark.parametrize(
    ("earlier", "later", "races"),
    [
        (Use.READ, Use.READ, False),
        (Use.READ, Use.WRITE, True),
        (Use.WRITE, Use.WRITE, True),
        (Use.WRITE | Use.STRONG, Use.WRITE | Use.STRONG, False),
        (Use.WRITE | Use.STRONG, Use.READ, True),
        (Use.READ | Use.STRONG, Use.READ, False),
        (Use.READ | Use.STRONG, Use.WRITE, True),
    ],
)
def test_uses_conflict_if_one_writes_and_one_is_not_atomic(earlier: Use, later: Use, races: bool) -> None:
    order, a, b = two_streams()
    used(order, a, earlier)
    assert (used(order, b, later) is not None) == races


def test_uses_of_other_bytes_do_not_race() -> None:
    order, a, b = two_streams()
    used(order, a, Use.WRITE, 0, 8)
    assert used(order, b, Use.WRITE, 8, 16) is None


def test_rows_that_interleave_do_not_race() -> None:
    order, a, b = two_streams()
    used_rows(order, a, Use.WRITE, [[0, 4], [8, 12], [16, 20]])
    assert used_rows(order, b, Use.WRITE, [[4, 8], [12, 16], [20, 24]]) is None
    race = used_rows(order, b, Use.READ, [[12, 14], [18, 30]])
    assert race is not None and (race.first, race.end) == (18, 20)


def test_the_legacy_stream_and_blocking_streams_wait_for_each_other() -> None:
    order = HostOrder()
    a, b = order.add_stream(blocking=True), order.add_stream(blocking=True)
    used(order, a, Use.WRITE)
    assert used(order, LEGACY, Use.WRITE) is None
    assert used(order, b, Use.WRITE) is None
    assert used(order, a, Use.WRITE) is not None, "streams a and b are not ordered"


def test_a_blocking_stream_that_is_gone_is_still_waited_for() -> None:
    order = HostOrder()
    a = order.add_stream(blocking=True)
    used(order, a, Use.WRITE)
    order.destroy_stream(a)
    assert used(order, LEGACY, Use.WRITE) is None
    b = order.add_stream(blocking=False)
    assert used(order, b, Use.WRITE) is not None


def test_the_host_waits_before_it_reads() -> None:
    order = HostOrder()
    used(order, LEGACY, Use.WRITE)
    assert used(order, HOST, Use.READ) is not None
    order.synchronize(LEGACY)
    assert used(order, HOST, Use.READ) is None
    assert used(order, LEGACY, Use.WRITE) is None, "the host's uses precede work that the host starts later"


def test_waiting_for_a_blocking_stream_does_not_wait_for_the_legacy_stream() -> None:
    order = HostOrder()
    stream = order.add_stream(blocking=True)
    order.begin(stream)
    used(order, LEGACY, Use.WRITE)
    order.synchronize(stream)
    assert used(order, HOST, Use.READ) is not None


def test_a_repeated_loop_is_remembered_once() -> None:
    order, a, b = two_streams()
    for _ in range(1000):
        used(order, a, Use.READ)
        used(order, b, Use.READ)
    assert len(order.pending(BLOCK)) == 2
    order.synchronize_device()
    assert order.pending(BLOCK) == []


def test_reused_memory_inherits_pending_uses() -> None:
    order, a, b = two_streams()
    used(order, b, Use.READ)
    order.inherit(2, order.forget(BLOCK), one_range(100, 200))
    order.begin(a)
    assert order.use(a, 2, Use.WRITE, one_range(150, 160), "a") is not None
