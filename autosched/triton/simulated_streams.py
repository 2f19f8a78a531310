"""Streams and events of ``torch.cuda`` on a simulated GPU, tracked by a ``StreamOrder``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.triton.streams import StreamOrder
from measurements.emulator.host_order import LEGACY, Clock


def stream_classes(streams: StreamOrder, clock: Callable[[], float], device: Any) -> dict[str, Any]:
    """Return the classes that replace the stream and event classes of ``torch.cuda`` on a simulated GPU.

    Args:
        streams: Tracks the order of the streams' work.
        clock: Returns the milliseconds of the simulated device.
        device: Device of the streams.

    Returns:
        The classes by name.
    """

    class SimulatedStream:
        """A simulated stream, whose work is executed immediately."""

        device_index = 0

        def __init__(self, *_: Any, number: int | None = None, priority: int = 0, **__: Any) -> None:
            self.number = streams.add_stream() if number is None else number
            self.priority = priority
            self.device = device
            self._before: list[int] = []

        @property
        def cuda_stream(self) -> int:
            return 0 if self.number == LEGACY else self.number

        stream_id = cuda_stream

        def __eq__(self, other: object) -> bool:
            return isinstance(other, SimulatedStream) and other.number == self.number

        def __hash__(self) -> int:
            return hash(self.number)

        def __enter__(self) -> SimulatedStream:
            self._before.append(streams.current)
            streams.current = self.number
            return self

        def __exit__(self, *_: Any) -> None:
            streams.current = self._before.pop()

        def synchronize(self) -> None:
            streams.synchronize(self.number)

        def wait_stream(self, stream: SimulatedStream) -> None:
            streams.wait(self.number, streams.record(stream.number))

        def wait_event(self, event: Any) -> None:
            event.wait(self)

        def record_event(self, event: Any = None) -> Any:
            event = SimulatedEvent() if event is None else event
            event.record(self)
            return event

        def query(self) -> bool:
            self.synchronize()
            return True

    class SimulatedEvent:
        """An event: a time on the simulated device, and a vector clock that states which work precedes the event."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self._at = clock()
            self._clock: Clock = {}

        def record(self, stream: SimulatedStream | None = None) -> None:
            self._at = clock()
            self._clock = streams.record(streams.current if stream is None else stream.number)

        def elapsed_time(self, end: SimulatedEvent) -> float:
            return max(end._at - self._at, 1e-6)

        def wait(self, stream: SimulatedStream | None = None) -> None:
            streams.wait(streams.current if stream is None else stream.number, self._clock)

        def synchronize(self) -> None:
            streams.synchronize_event(self._clock)

        def query(self) -> bool:
            self.synchronize()
            return True

    class StreamContext:
        """The context manager of ``with torch.cuda.stream(stream)``."""

        def __init__(self, stream: SimulatedStream | None) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            if self.stream is not None:
                self.stream.__enter__()

        def __exit__(self, *_: Any) -> None:
            if self.stream is not None:
                self.stream.__exit__()

    def set_stream(stream: SimulatedStream) -> None:
        streams.current = stream.number

    return {
        "synchronize": lambda *_, **__: streams.synchronize(),
        "current_stream": lambda *_, **__: SimulatedStream(number=streams.current),
        "default_stream": lambda *_, **__: SimulatedStream(number=LEGACY),
        "set_stream": set_stream,
        "stream": StreamContext,
        "StreamContext": StreamContext,
        "Stream": SimulatedStream,
        "ExternalStream": lambda pointer=0, *_, **__: SimulatedStream(number=pointer or LEGACY),
        "Event": SimulatedEvent,
    }
