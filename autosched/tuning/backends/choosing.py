"""Choose: measure on a GPU of this machine, replay a recording, or estimate; and say why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.tuning.backends.backend import BACKENDS, Backend, BackendError, Gpus
from autosched.tuning.backends.cluster import of_cluster
from autosched.tuning.backends.estimates import TRAINED, Estimate, TrainedEstimate
from autosched.tuning.backends.gpus import UsableGpus, checked_numbers, probe, wanted_device
from autosched.tuning.backends.replaying import headline_reason, of_recording, of_table
from measurements.compiler.cores import cores_beside
from measurements.compiler.nvcc import NvccMissing
from measurements.compiler.pool import CompilePool, NvrtcMissing
from measurements.records.policy import Policy
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.runners.estimate import EstimateRunner, Predict
from measurements.runners.fleet.cluster import Fleet
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import DEFAULT_DEVICE, Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem, whole_number
from search_spaces.templates.template import KernelTemplate, TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import TrainedModel


def choose(
    backend: str = "auto",
    device: str | Device | None = None,
    *,
    problem: Problem | None = None,
    workers: int | None = None,
    timing: CudaOptions | None = None,
    gpus: Gpus | None = None,
    templates: Iterable[str | KernelTemplate] | None = None,
    model: TrainedModel | None = None,
    ray: str | Fleet | None = None,
    recording_file: str | Path | None = None,
) -> Backend:
    """Return the backend: what makes times, of which templates, on which device.

    "auto" measures where a GPU answers that is the device asked for. Elsewhere it replays, where ``problem`` was
    recorded on the device with today's space, and else estimates. A device is never replaced by a similar one.

    Args:
        backend: One of BACKENDS. "ray" alone takes the cluster that this machine belongs to.
        device: A name, a row, or None for the GPU of this machine, and h200 where there is none.
        problem: What will be searched; None to look at the machine alone.
        workers: Compilers; None for one per core.
        timing: How times are taken on a GPU, and whether its power is measured, too; None for the defaults. Only what
            measures can have another policy than the default.
        gpus: Those that measure, all of one kind; None for GPU 0 alone, because the others of a shared machine may be
            somebody's.
        templates: Those to search, by name or themselves; None for all that can compute ``problem``.
        model: Estimates times; None for the analytic model.
        ray: The address of a cluster whose GPUs of the kind ``device`` measure, or a Fleet of one, which stays the
            caller's to close.
        recording_file: What "replay" replays: a cache or T4 file of Kernel Tuner's, a recording, a database.

    Returns:
        The backend, which the caller closes.

    Raises:
        ValueError: What cannot be used (BackendError, FleetError, UnknownDevice, RecordingError, TableError); no
            process is started then.
    """
    if backend not in BACKENDS:
        raise BackendError(f"unknown backend {backend!r}: use one of {', '.join(BACKENDS)}")
    if workers is not None:
        workers = whole_number("workers", workers, 1)
    gpus = checked_numbers(gpus)
    timing = timing or CudaOptions()
    if recording_file is not None:
        if backend != "replay":
            raise BackendError("a recording is for the backend replay: give --backend replay")
        if timing.power:
            raise BackendError("power is measured on a GPU alone: choose another objective")
        return of_table(problem, device, recording_file, templates)
    if ray is not None or backend == "ray":
        if backend not in ("auto", "ray") or gpus is not None:
            raise BackendError("a Ray cluster measures on all its GPUs of a kind: leave --backend and --gpus out")
        return of_cluster(ray or "auto", device, problem, workers, timing.policy, templates)
    found = UsableGpus(why_not=f"backend {backend} was asked for")
    if backend in ("auto", "cuda"):
        found = probe(gpus)
    wanted = wanted_device(device, found.device)
    if found.device is not None and wanted not in (None, found.device):
        named = wanted.name if wanted else ""
        found = UsableGpus(why_not=f"the GPU of this machine is {found.device.name}, not {named}")
    if found.device is not None:
        usable = TemplateSet(()) if problem is None else templates_for(problem, found.device, templates)
        return _measuring(found.device, found.numbers, usable, workers, timing)
    no_gpu = found.why_not
    _refuse_without_gpu(no_gpu, cuda=backend == "cuda", other_policy=timing.policy != Policy(), gpus=gpus is not None)
    row = wanted or device_row(DEFAULT_DEVICE)
    if backend in ("auto", "replay"):
        replaying, why_not = of_recording(problem, row, no_gpu, templates)
        if replaying is not None:
            return replaying
        if backend == "replay":
            raise BackendError(f"there is nothing to replay: {why_not}; use --backend estimate to go on without it")
        no_gpu = f"{no_gpu}; {why_not}"
    if timing.power:
        raise BackendError(f"power is measured on a GPU alone ({no_gpu}): choose another objective")
    usable = TemplateSet(()) if problem is None else templates_for(problem, row, templates)
    return _estimating(row, usable, workers, no_gpu, model, problem)


def _refuse_without_gpu(why_not: str, *, cuda: bool, other_policy: bool, gpus: bool) -> None:
    """Raise BackendError for what was asked for and needs a GPU."""
    if cuda:
        raise BackendError(f"the backend cuda cannot measure ({why_not}): use --backend estimate to go on without it")
    if other_policy:
        raise BackendError(
            f"a warm cache or another policy concerns times measured on a GPU ({why_not}): "
            "leave --warm-cache, --eager and --clocks out"
        )
    if gpus:
        raise BackendError(f"gpus need a GPU to measure on ({why_not}): leave --gpus out")


def _measuring(
    device: Device, gpus: tuple[int, ...], usable: TemplateSet, workers: int | None, options: CudaOptions
) -> Backend:
    pool = _compilers(workers or cores_beside(len(gpus)), usable)
    runner = CudaRunner(device, pool, gpus=gpus, options=options)
    headline = f"times are MEASURED on {'the GPU' if len(gpus) == 1 else f'{len(gpus)} GPUs'} of this machine"
    line, how = runner.describe(), str(options.policy)
    return Backend(runner.name, runner, device, line, pool, usable, headline=headline, gpus=len(gpus), policy=how)


def _estimating(
    device: Device,
    usable: TemplateSet,
    workers: int | None,
    why: str,
    model: TrainedModel | None,
    problem: Problem | None,
) -> Backend:
    pool = _compilers(workers, usable)
    analytic = Estimate(device, usable)
    estimate: Predict = analytic
    by = analytic.name(problem)
    if model is not None and problem is not None:
        estimate = TrainedEstimate(device, usable, model.of(problem))
        by = f"{TRAINED} {model.digest[:12]} (of {model.provenance} times)"
    runner = EstimateRunner(device, pool, estimate, model=by, why=why)
    headline = f"times are ESTIMATED: {headline_reason(why)}"
    return Backend(runner.name, runner, device, runner.describe(), pool, usable, headline=headline)


def _compilers(workers: int | None, usable: TemplateSet) -> CompilePool:
    try:
        return CompilePool(workers=workers, compile_options=usable.compile_options)
    except (NvrtcMissing, NvccMissing) as error:
        raise BackendError(str(error)) from error
