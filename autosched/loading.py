"""From a database's answer to a kernel on the GPU: looked up, compiled unless the cache has it, loaded."""

from __future__ import annotations

import atexit
import dataclasses
import shutil
import tempfile
from functools import cache
from typing import Any

from autosched.library_kernel import LibraryKernel, usable_library
from autosched.lookup import look_up
from autosched.runtime import CompiledKernel, LoadedKernel, RuntimeUnavailable
from autosched.staleness import Environment
from measurements.cache_folder import CacheUnusable
from measurements.compile import CompileCache, CompileFailure, CompilePool, NvrtcMissing, over_limits
from measurements.compile_cache import Compiled
from measurements.runners.cuda_device import GpuHere
from measurements.store import Store
from search_spaces.operators.problem import Problem
from search_spaces.templates.kernel import Kernel


def load(cp: Any, gpu: GpuHere, store: Store, problem: Problem, *, exact: bool) -> LoadedKernel:
    """The kernel that ``store`` gives for ``problem`` on ``gpu``, which is cupy's current one; ``cp`` is cupy.

    Raises NoSchedule and RuntimeUnavailable.
    """
    compiled: dict[str, Compiled] = {}
    try:
        with CompilePool(_compile_cache(), workers=1) as pool:

            def usable(kernel: Kernel) -> str | None:
                """Why the kernel cannot be compiled for this GPU or launched on it, or None."""
                result = pool.compile(kernel, gpu.device.arch)
                if isinstance(result, CompileFailure):
                    return result.reason
                compiled[kernel.digest] = result
                return over_limits(kernel, result.resources, gpu.device)

            here = Environment(pool.toolchain, gpu.driver, gpu.cuda)
            answer = look_up(store, problem, gpu.device, here, exact=exact, usable=usable, library=usable_library)
    except NvrtcMissing as error:
        raise RuntimeUnavailable(str(error)) from error
    if answer.kernel is None:
        return LibraryKernel(cp, problem, answer.provenance)
    program = compiled[answer.kernel.digest]
    launch = dataclasses.replace(answer.kernel, entry=program.entry)
    return CompiledKernel(cp, launch, str(program.path), answer.provenance)


def _compile_cache() -> CompileCache:
    """That of this machine; where it cannot be written, one that ends with the process."""
    try:
        usual = CompileCache()
        usual.check()
    except CacheUnusable:
        return CompileCache(_temporary_folder())
    return usual


@cache
def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="autosched-cubins-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
