"""Compiles kernels, many at once, with compilers that are started once."""

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
    """Return the pool of this process, with the user's cache: starting a compiler takes as long as a small kernel."""
    pool = CompilePool()
    atexit.register(pool.close)
    return pool


def compile_many(
    pool: CompilePool, kernels: Iterable[GeneratedKernel], arch: str
) -> Iterator[tuple[int, Compiled | CompileFailure]]:
    """Yield (position, result) of each kernel exactly once, as they are done.

    ``pool.close`` from another thread ends the iteration early. Leaving it early cancels what has not begun.
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
