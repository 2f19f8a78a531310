"""Streams of candidates, whose results arrive in order of completion."""

from __future__ import annotations

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from functools import partial
from typing import Any

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, Compiler
from measurements.runners.base import Candidate, Runner, Stream, Streaming
from measurements.trials.measurement import Measurement
from measurements.workers.transport import WorkerClosed


class Call:
    """A running call of a runner's public method. The call receives results from other threads.

    ``results`` receives results, an exception to raise, or None when the runner or its pool closes.

    If ``over`` is true, the call accepts no more results.
    """

    def __init__(self) -> None:
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.over = False


class PoolStream(Call):
    """Stream of candidates, which a pool compiles before they are measured.

    Args:
        pool: Compilers.
        arch: Target architecture.
        compiled: Function that is called with each compiled kernel or failure, in a thread of the pool or in the thread
            that called ``add``. The function puts an item into ``results``, immediately or later.
        finish: Function that converts an item to (position, measurement, GPU seconds), in the iterating thread. If it
            returns None, the item is skipped.
        closed: Function that is called when the stream is closed.
    """

    def __init__(
        self,
        pool: Compiler,
        arch: str,
        compiled: Callable[[PoolStream, int, Candidate, Compiled | CompileFailure], None],
        *,
        finish: Callable[[Any], tuple[int, Measurement, float] | None] = lambda result: result,
        closed: Callable[[PoolStream], None] = lambda stream: None,
    ) -> None:
        super().__init__()
        self._pool, self._arch = pool, arch
        self._take, self._finish, self._closed = compiled, finish, closed
        # compilations of candidates without a result, by position
        self._futures: dict[int, Future[Compiled | CompileFailure]] = {}
        self._added = 0
        self.seconds = 0.0

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Submit candidates to the pool. Raises RuntimeError if the pool is closed."""
        for candidate in candidates:
            position, self._added = self._added, self._added + 1
            future = self._futures[position] = self._pool.submit(candidate.kernel, self._arch)
            future.add_done_callback(partial(self._compiled, position, candidate))

    def ready(self) -> bool:
        """Return True if a result is in the queue."""
        return not self.results.empty()

    def __iter__(self) -> Iterator[tuple[int, Measurement]]:
        return self

    def __next__(self) -> tuple[int, Measurement]:
        if not self._futures:
            raise StopIteration
        result = self.results.get()
        try:
            if isinstance(result, BaseException):
                raise result
            finished = None if result is None else self._finish(result)
        except BaseException:
            self.close()
            raise
        if finished is None:
            self.close()
            raise StopIteration
        position, measurement, self.seconds = finished
        del self._futures[position]
        return position, measurement

    def close(self) -> None:
        """Close the stream, and cancel compilations that have not started."""
        self.over = True
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()
        self._closed(self)

    def _compiled(self, position: int, candidate: Candidate, future: Future[Compiled | CompileFailure]) -> None:
        if self.over:
            return
        try:
            self._take(self, position, candidate, future.result())
        except (CancelledError, WorkerClosed):  # the pool was closed
            self.results.put(None)
        except BaseException as error:
            self.results.put(error)


class PoolRunner(ABC):
    """A runner that compiles candidates in a pool and measures them in a single stream."""

    @abstractmethod
    def stream(self) -> PoolStream:
        """Return an empty stream, to which candidates can be added."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Measure as the protocol ``Runner`` specifies. Errors of the stream are raised."""
        with closing(self.stream()) as stream:
            stream.add(candidates)
            yield from stream


class InOrder:
    """A stream that yields results in the order in which candidates were added."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._early: dict[int, tuple[Measurement, float]] = {}
        self._next = 0
        self.seconds = 0.0

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates to the wrapped stream."""
        self._stream.add(candidates)

    def ready(self) -> bool:
        """Always False, so that the caller's decisions do not depend on how many candidates are complete."""
        return False

    def __iter__(self) -> Iterator[tuple[int, Measurement]]:
        return self

    def __next__(self) -> tuple[int, Measurement]:
        while self._next not in self._early:
            position, measurement = next(self._stream)
            self._early[position] = measurement, self._stream.seconds
        measurement, self.seconds = self._early.pop(self._next)
        self._next += 1
        return self._next - 1, measurement

    def close(self) -> None:
        """Close the wrapped stream."""
        self._stream.close()


class _Batches:
    """Stream for a runner without streams.

    Candidates are measured in batches; new candidates wait for the next batch.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._waiting: list[Candidate] = []
        self._batch: Iterator[tuple[int, Measurement]] = iter(())
        self._before = 0  # number of candidates in earlier batches
        self._size = 0
        self.seconds = 0.0

    def add(self, candidates: Sequence[Candidate]) -> None:
        self._waiting += candidates

    def ready(self) -> bool:
        return False

    def __iter__(self) -> Iterator[tuple[int, Measurement]]:
        return self

    def __next__(self) -> tuple[int, Measurement]:
        began = time.monotonic()
        result = next(self._batch, None)
        if result is None and self._waiting:
            self._before, self._size = self._before + self._size, len(self._waiting)
            self._batch, self._waiting = self._runner.measure(self._waiting), []
            result = next(self._batch, None)
        if result is None:
            raise StopIteration
        self.seconds = time.monotonic() - began
        return self._before + result[0], result[1]

    def close(self) -> None:
        if close := getattr(self._batch, "close", None):
            close()


def stream_of(runner: Runner) -> Stream:
    """Return a stream of the runner. If the runner has no streams, candidates are measured in batches."""
    return runner.stream() if isinstance(runner, Streaming) else _Batches(runner)
