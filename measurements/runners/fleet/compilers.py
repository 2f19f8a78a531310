"""Compile on the machines of a cluster, with the interface of a local compile pool."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from measurements.compiler.cubin_cache import CompileCache, Compiled
from measurements.compiler.nvcc import toolchain_of
from measurements.compiler.nvrtc import OPTIONS
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.runners.fleet.actors import SentModule
from measurements.runners.fleet.cluster import Fleet
from measurements.runners.fleet.dispatch import JobLost
from measurements.trials.measurement import Status
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers


class FleetCompilers(CompilePool):
    """Compile on the machines of ``fleet``. The caller closes the fleet.

    Results are also stored in the cache of this machine, and cached kernels are not compiled again. ``compile_options``
    are as for CompilePool. Raises NvrtcMissing or NvccMissing if this machine has no compiler, because every
    measurement records the compiler's version.
    """

    def __init__(self, fleet: Fleet, cache: CompileCache | None = None, *, compile_options: Sequence[str] = ()) -> None:
        self.toolchain = toolchain_of(compile_options)
        self.cache = cache or CompileCache()
        self.workers = max(fleet.compilers.members, 1)
        self._fleet = fleet
        self._headers: dict[str, Any] = {}
        self._guard = threading.Lock()
        fleet.require_toolchain(toolchain_of(()))

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        """Return the kernel from the cache, or compile it on a machine of the cluster."""
        result: Future[Compiled | CompileFailure] = Future()
        key = CompileCache.key(kernel, arch, (*OPTIONS, *kernel.compile_options), toolchain_of(kernel.compile_options))
        known = self.cache.load(key)
        if known is not None:
            result.set_result(known)
            return result
        headers = self._sent(kernel.headers)
        bare = dataclasses.replace(kernel, headers=Headers())
        answer = self._fleet.compilers.submit(lambda handle: handle.compile.remote(headers, bare, arch))
        answer.add_done_callback(lambda done: self._done(key, done, result))
        return result

    def _done(self, key: str, done: Future[Any], result: Future[Compiled | CompileFailure]) -> None:
        try:
            compiled = done.result()
            if isinstance(compiled, SentModule):
                names = ("entry", "resources", "compile_seconds", "log", "arch", "toolchain")
                compiled = self.cache.store(key, compiled.cubin, **{n: getattr(compiled, n) for n in names})
            if not result.cancelled():
                result.set_result(compiled)
        except CancelledError:
            result.cancel()
        except JobLost as error:
            result.set_result(CompileFailure(Status.CRASHED, f"the compiler was lost: {error}"))
        except BaseException as error:
            result.set_exception(error)

    def _sent(self, headers: Headers) -> Any:
        with self._guard:
            if headers.digest not in self._headers:
                self._headers[headers.digest] = self._fleet.put(headers)
            return self._headers[headers.digest]

    @property
    def pids(self) -> tuple[int, ...]:
        """Empty, because the processes are on other machines."""
        return ()

    def close(self) -> None:
        """Do nothing, because there are no local processes."""
