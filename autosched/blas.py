"""Stop idle BLAS threads from using CPU time, which compilers and emulated launches need."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_IDLE_TIME = "OPENBLAS_THREAD_TIMEOUT"
_limiting = threading.Lock()


def import_numpy() -> None:
    """Import numpy with BLAS threads that sleep immediately when idle.

    The threads of OpenBLAS start when numpy is imported. By default each of them spins for 2^26 cycles (20 ms of CPU
    time) before it sleeps. An environment variable shortens this time. OpenBLAS reads the variable when it is loaded;
    child processes must not inherit it.
    """
    if "numpy" in sys.modules or _IDLE_TIME in os.environ:
        return
    os.environ[_IDLE_TIME] = "4"  # 2^4 cycles, the minimum
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_IDLE_TIME]


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit all BLAS libraries in this process to one thread; a context manager and decorator.

    On busy cores, BLAS threads that wait for each other take many times the CPU time of a single thread. Contexts may
    be nested. If contexts of several threads overlap, only the first context sets the limit, and its exit removes the
    limit.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _controller(len(sys.modules)).limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Return threadpoolctl's controller of the loaded BLAS libraries. The result is cached: finding them takes 1 ms.

    Args:
        modules: Number of imported modules, the key of the cache: a new module may have loaded another library.
    """
    from threadpoolctl import ThreadpoolController  # lazy: this import takes 15 ms

    return ThreadpoolController()
