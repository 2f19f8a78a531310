"""Measuring on the GPUs of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.tuning.backends.backend import Backend, BackendError
from measurements.compiler.pool import NvrtcMissing
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.fleet.actors import FleetOptions
from measurements.runners.fleet.cluster import Fleet
from measurements.runners.fleet.compilers import FleetCompilers
from measurements.runners.fleet.runner import FleetRunner
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.template import KernelTemplate, TemplateSet


def of_cluster(
    address: str,
    device: str | Device | None,
    problem: Problem | None,
    workers: int | None,
    warm_cache: bool,
    templates: Iterable[str | KernelTemplate] | None,
) -> Backend:
    """Return a backend over the GPUs of a Ray cluster. Raises ValueError where it has none of the kind."""
    if problem is not None and problem.judged:
        raise BackendError(
            "its outputs are judged by a function of the kernel file, which no cluster has: leave --ray out"
        )
    wanted = device.name if isinstance(device, Device) else None if device is None else device_row(device).name
    fleet = Fleet(address, FleetOptions(cuda=CudaOptions(warm_cache=warm_cache)), compilers=workers)
    try:
        kind = fleet.device(wanted)
        usable = TemplateSet(()) if problem is None else templates_for(problem, kind, templates)
        pool = FleetCompilers(fleet)
        runner = FleetRunner(fleet, kind, pool)
        headline = f"times are MEASURED on {runner.gpus} GPUs of a Ray cluster"
        return Backend(
            runner.name, runner, kind, runner.describe(), pool, usable, headline=headline, gpus=runner.gpus, fleet=fleet
        )
    except NvrtcMissing as error:
        fleet.close()
        raise BackendError(str(error)) from error
    except BaseException:
        fleet.close()
        raise
