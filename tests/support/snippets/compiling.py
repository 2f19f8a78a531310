"""Compile many kernels at once, with compiler processes that are started once."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, as_completed
from functools import cache

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.workers.transport import WorkerClosed
from search_spaces.launches.generated_kernel import GeneratedKernel


@cache
def shared_pool() -> CompilePool:
    """Return the pool of this process, with the user's cache.

    The pool is shared, since starting a compiler takes as long as compiling a small kernel.
    """
    pool = CompilePool()
    atexit.register(pool.close)
    return pool


def compile_many(
    pool: CompilePool, kernels: Iterable[GeneratedKernel], arch: str
) -> Iterator[tuple[int, Compiled | CompileFailure]]:
    """Yield the position and result of each kernel exactly once, in the order of completion.

    ``pool.close`` in another thread ends the iteration early. Leaving the iteration cancels compilations that have not
    started.
    """
    positions = {pool.submit(kernel, arch): i for i, kernel in enumerate(kernels)}
    try:
        for future in as_completed(positions):
            try:
                result = future.result()
            except (CancelledError, WorkerClosed):
                return
            yield positions[future], result
    finally:
        for future in positions:
            future.cancel()
