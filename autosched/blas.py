"""Limit BLAS to one thread while small matrices are computed next to compilers and emulated launches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_limiting = threading.Lock()


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit the BLAS libraries that are loaded to one thread, in the whole process; use it as a decorator, too.

    On busy cores, BLAS threads that wait for each other take many times the CPU time of one. Contexts nest. Where they
    overlap in several threads, the first one sets the limit and restores the number of threads.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        from threadpoolctl import threadpool_limits  # takes 15 ms, which most commands do not need

        with threadpool_limits(1, user_api="blas"):  # takes 1 ms
            yield
    finally:
        _limiting.release()
