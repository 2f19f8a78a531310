"""Measurements on the GPUs of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.tuning.backends.backend import Backend, BackendError
from measurements.compiler.pool import NvrtcMissing
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.fleet.actors import FleetOptions
from measurements.runners.fleet.cluster import Fleet
from measurements.runners.fleet.compilers import FleetCompilers
from measurements.runners.fleet.runner import FleetRunner
from measurements.trials.policy import Policy
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.template import KernelTemplate, TemplateSet


def of_cluster(
    where: str | Fleet,
    device: str | Device | None,
    problem: Problem | None,
    workers: int | None,
    policy: Policy | None,
    templates: Iterable[str | KernelTemplate] | None,
) -> Backend:
    """Return a backend over the GPUs of a Ray cluster.

    Args:
        where: The cluster's address ("auto": the cluster of this machine), or a Fleet, which the caller must close.
        device: GPU model to measure on; None if all GPUs of the cluster are of one model.
        problem: Problem to search; None for a backend without templates.
        workers: Number of compilers on the cluster; None for one per CPU.
        policy: Timing policy; None for the default.
        templates: Kernel templates to search, or their names; None for all that can compute ``problem``.

    Returns:
        The backend. Closing it also closes the Fleet, unless the caller passed one.

    Raises:
        BackendError: The kernel file has a function that checks the outputs. Clusters do not support such functions.
        ValueError: The cluster has no GPU of the model ``device``.
    """
    if problem is not None and problem.checks_outputs:
        raise BackendError("the kernel file's function that checks the outputs cannot run on a Ray cluster: omit --ray")
    device_name = device.name if isinstance(device, Device) else None if device is None else device_row(device).name
    existing = where if isinstance(where, Fleet) else None
    fleet = existing or cluster(str(where), policy=policy, workers=workers)
    owned = fleet if existing is None else None
    try:
        kind = fleet.device(device_name)
        usable = TemplateSet(()) if problem is None else templates_for(problem, kind, templates)
        pool = FleetCompilers(fleet, compile_options=usable.compile_options)
        runner = FleetRunner(fleet, kind, pool)
        headline = f"times are MEASURED on {runner.gpus} GPUs of a Ray cluster"
        return Backend(
            runner.name,
            runner,
            kind,
            runner.describe(),
            pool,
            usable,
            headline=headline,
            gpus=runner.gpus,
            fleet=fleet,
            owned=owned,
            policy=str(fleet.options.cuda.policy),
        )
    except BaseException as error:
        if owned is not None:
            owned.close()
        if isinstance(error, NvrtcMissing):
            raise BackendError(str(error)) from error
        raise


def cluster(address: str, *, policy: Policy | None = None, workers: int | None = None) -> Fleet:
    """Return a Fleet of the Ray cluster at ``address``, which several backends can share. Raises FleetError."""
    return Fleet(address, FleetOptions(cuda=CudaOptions(policy=policy or Policy())), compilers=workers)
