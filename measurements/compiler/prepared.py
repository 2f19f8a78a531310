"""Load cubins that another machine compiled. The class has the interface of a compile pool."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from measurements.compiler.cubin_cache import CompileCache, Compiled
from measurements.compiler.nvrtc import OPTIONS
from measurements.compiler.pool import CompileFailure
from measurements.trials.measurement import Status
from search_spaces.launches.generated_kernel import GeneratedKernel


class PreparedCubins:
    """A folder of cubins, which a ``CompilePool`` on another machine compiled.

    Args:
        folder: Folder of the pool's ``CompileCache``.
        toolchain: Compiler and version of the pool.
    """

    def __init__(self, folder: Path, toolchain: str) -> None:
        self.toolchain = toolchain
        self._cache = CompileCache(folder)

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        """Return the cubin of ``kernel`` for ``arch`` ("sm_90a"), or a failure if none was prepared."""
        options = (*OPTIONS, *kernel.compile_options)
        known = self._cache.load(CompileCache.key(kernel, arch, options, self.toolchain))
        future: Future[Compiled | CompileFailure] = Future()
        missing = CompileFailure(Status.COMPILE_ERROR, "not prepared: compile this kernel beforehand")
        future.set_result(known or missing)
        return future
