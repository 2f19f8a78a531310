"""A function of each item, several at a time, in threads that nobody has to wait for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Call ``function`` for each item in daemon threads.

    A kernel may run for a minute, and Ctrl-C is not to wait for it: where the reader stops, what has not begun is left
    out, and what runs ends with the process, the emulator's runners included (PR_SET_PDEATHSIG).

    Args:
        function: May be called in several threads at once.
        items: What it is called for.
        threads: How many calls at a time.

    Yields:
        What it returns, in the order of the items.

    Raises:
        Exception: What a call has raised, in its turn.
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
            yield result.result()
    finally:
        for result in results:
            result.cancel()
