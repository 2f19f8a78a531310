"""Parallel map in daemon threads, which do not delay the end of the process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from measurements.interruptible import result_of

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Call ``function`` for each item in daemon threads.

    A kernel may run for a minute, and Ctrl-C must not wait for it. If the iterator is closed, pending items are
    skipped. Calls that still run, and the emulator's child processes, end when this process ends (PR_SET_PDEATHSIG).

    Args:
        function: Thread-safe function.
        items: Arguments of ``function``, one per call.
        threads: Maximum number of concurrent calls.

    Yields:
        The results, in the order of the items.

    Raises:
        Exception: A call raised this exception. Results of earlier items are yielded first.
    """
    waiting: queue.SimpleQueue[tuple[Item, Future[Result]]] = queue.SimpleQueue()
    results: list[Future[Result]] = []
    for item in items:
        results.append(Future())
        waiting.put((item, results[-1]))

    def work() -> None:
        with suppress(queue.Empty):
            while True:
                item, result = waiting.get_nowait()
                if result.set_running_or_notify_cancel():
                    try:
                        result.set_result(function(item))
                    except BaseException as error:
                        result.set_exception(error)

    for _ in range(min(threads, len(results))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for result in results:
            yield result_of(result)
    finally:
        for result in results:
            result.cancel()
