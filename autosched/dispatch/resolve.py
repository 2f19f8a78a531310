"""Resolution of a problem to a loadable kernel: look up the schedule, and compile the kernel unless it is cached."""

from __future__ import annotations

from autosched.dispatch.kernel import RuntimeUnavailable
from autosched.dispatch.library_kernel import usable_library
from autosched.dispatch.lookup import look_up
from autosched.dispatch.resolve_cache import Resolved, ResolvedCache
from autosched.dispatch.staleness import Environment
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileCache, CompileFailure, CompilePool, NvrtcMissing, why_not_launched
from measurements.files.cache_folder import CacheUnusable
from measurements.files.work_folders import process_folder
from measurements.runners.cuda.device import CurrentGpu
from measurements.store.store import Store
from search_spaces.catalogue import template
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.templates.dependent import can_depend, made_dependent


def resolve(
    gpu: CurrentGpu,
    store: Store | None,
    problem: Problem,
    *,
    exact: bool,
    cache: ResolvedCache,
    dependent: bool = False,
) -> Resolved:
    """Look up the kernel for ``problem``, compile it, and store the result in ``cache``.

    Args:
        gpu: This machine's GPU, with driver and CUDA versions.
        store: Database. None: only the recordings that come with autosched.
        problem: Problem to compute.
        exact: Use only the database's trial of exactly this problem and GPU.
        cache: On-disk cache of look-ups, which later processes read.
        dependent: Use programmatic dependent launch if the GPU supports it.

    Returns:
        The launch, its cubin and its provenance; launch and cubin are None if the vendor's library is called.

    Raises:
        NoSchedule: No kernel can be used (see ``look_up``).
        RuntimeUnavailable: There is no compiler.
    """
    compiled: dict[str, Compiled] = {}
    try:
        with CompilePool(_compile_cache(), workers=1) as pool:

            def usable(kernel: GeneratedKernel) -> str | None:
                """Return why this GPU cannot run the kernel or why compilation fails; None if the kernel is usable."""
                result = pool.compile(kernel, gpu.device.arch)
                if isinstance(result, CompileFailure):
                    return result.reason
                compiled[kernel.digest] = result
                return why_not_launched(kernel, result, gpu.device)

            environment = Environment(pool.toolchain, gpu.driver, gpu.cuda)
            answer = look_up(
                store, problem, gpu.device, environment, exact=exact, usable=usable, library=usable_library
            )
            kernel = answer.kernel
            if kernel is not None and dependent and can_depend(kernel, gpu.device):
                kernel = made_dependent(kernel, gpu.device)
                if (reason := usable(kernel)) is not None:
                    raise RuntimeUnavailable(f"the kernel cannot be compiled for dependent launches: {reason}")
    except NvrtcMissing as error:
        raise RuntimeUnavailable(str(error)) from error
    if kernel is None:
        resolved, module = Resolved(None, None, answer.provenance), ""
    else:
        program = compiled[kernel.digest]
        launch = kernel.with_entries(program.entries)
        resolved = Resolved(launch, str(program.path), answer.provenance)
        module = template(answer.provenance.schedule.template).space.__module__
    cache.store(problem, gpu, resolved, module)
    return resolved


def _compile_cache() -> CompileCache:
    """Return this machine's compile cache; if it is not writable, a temporary cache for this process."""
    try:
        usual = CompileCache()
        usual.check()
    except CacheUnusable:
        return CompileCache(str(process_folder("cubins")))
    return usual
