"""Choose the backend (measure on a local GPU, replay a recording, or estimate), and report the reason of the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.tuning.backends.backend import Backend, BackendError
from autosched.tuning.backends.cluster import of_cluster
from autosched.tuning.backends.estimators import TRAINED, AnalyticEstimator, TrainedEstimator
from autosched.tuning.backends.gpus import UsableGpus, probe, wanted_device
from autosched.tuning.backends.options import BackendOptions
from autosched.tuning.backends.replaying import headline_reason, of_recording, of_table
from measurements.compiler.cores import compile_workers
from measurements.compiler.nvcc import NvccMissing
from measurements.compiler.pool import CompilePool, NvrtcMissing
from measurements.runners.cuda.runner import CudaRunner
from measurements.runners.estimate import EstimateRunner
from measurements.trials.policy import Policy
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import DEFAULT_DEVICE, Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import TrainedModel


def choose(problem: Problem | None, options: BackendOptions, model: TrainedModel | None = None) -> Backend:
    """Choose the backend that times the candidates of a search.

    If this machine has the requested GPU, "auto" measures on it. Otherwise "auto" replays a recording of ``problem``
    that was made on the requested device with the current space. Without such a recording, "auto" estimates. A GPU or
    recording of a similar device is never used instead.

    Args:
        problem: Problem to search; None for a backend without a problem.
        options: Options of the backend.
        model: Trained model for the backend "estimate". Default: the analytic model.

    Returns:
        The backend, which the caller closes.

    Raises:
        ValueError: Invalid options or files (BackendError, FleetError, UnknownDevice, RecordingError, TableError). The
            error is raised before any process is started.
    """
    backend, device, templates = options.backend, options.device, options.templates
    if options.recording is not None:
        _refuse_power(options, "")
        return of_table(problem, device, options.recording, templates)
    if options.on_cluster:
        return of_cluster(options.ray or "auto", device, problem, options.workers, options.policy, templates)
    usable_gpus = UsableGpus(why_not=f"backend {backend} was requested")
    if backend in ("auto", "cuda"):
        usable_gpus = probe(options.gpus)
    requested = wanted_device(device, usable_gpus.device)
    if usable_gpus.device is not None and requested not in (None, usable_gpus.device):
        named = requested.name if requested else ""
        usable_gpus = UsableGpus(why_not=f"this machine's GPU is {usable_gpus.device.name}, not {named}")
    if usable_gpus.device is not None:
        usable = TemplateSet(()) if problem is None else templates_for(problem, usable_gpus.device, templates)
        return _measuring(usable_gpus.device, usable_gpus.numbers, usable, options)
    no_gpu = usable_gpus.why_not
    _refuse_without_gpu(no_gpu, options)
    row = requested or device_row(DEFAULT_DEVICE)
    if backend in ("auto", "replay"):
        replaying, why_not = of_recording(problem, row, no_gpu, templates)
        if replaying is not None:
            return replaying
        if backend == "replay":
            raise BackendError(f"there is nothing to replay: {why_not}; use --backend estimate instead")
        no_gpu = f"{no_gpu}; {why_not}"
    _refuse_power(options, f" ({no_gpu})")
    usable = TemplateSet(()) if problem is None else templates_for(problem, row, templates)
    estimator: AnalyticEstimator | TrainedEstimator = AnalyticEstimator(row, usable)
    if model is not None and problem is not None:
        name = f"{TRAINED} {model.digest[:12]} (of {model.provenance} times)"
        estimator = TrainedEstimator(row, usable, model.of(problem), name)
    return _estimating(estimator, options.workers, no_gpu)


def _refuse_power(options: BackendOptions, why: str) -> None:
    """Raise BackendError for an objective that requires power measurement."""
    if options.power:
        raise BackendError(f"power cannot be measured without a GPU{why}: choose another objective")


def _refuse_without_gpu(why_not: str, options: BackendOptions) -> None:
    """Raise BackendError for an option that needs a GPU."""
    if options.backend == "cuda":
        raise BackendError(
            f"the backend cuda cannot measure on this machine ({why_not}): use --backend estimate instead"
        )
    if options.policy != Policy():
        raise BackendError(
            f"a timing policy only applies to times measured on a GPU ({why_not}): "
            "omit --warm-cache, --eager and --clocks"
        )
    if options.gpus is not None:
        raise BackendError(f"this machine has no GPU to measure on ({why_not}): omit --gpus")


def _measuring(device: Device, gpus: tuple[int, ...], usable: TemplateSet, options: BackendOptions) -> Backend:
    pool = _compilers(options.workers or compile_workers(len(gpus)), usable)
    runner = CudaRunner(device, pool, gpus=gpus, options=options.timing)
    headline = f"times are MEASURED on {'the GPU' if len(gpus) == 1 else f'{len(gpus)} GPUs'} of this machine"
    line, how = runner.describe(), str(options.policy)
    return Backend(runner.name, runner, device, line, pool, usable, headline=headline, gpus=len(gpus), policy=how)


def _estimating(estimator: AnalyticEstimator | TrainedEstimator, workers: int | None, why: str) -> Backend:
    device, usable = estimator.device, estimator.templates
    pool = _compilers(workers, usable)
    runner = EstimateRunner(device, pool, estimator, model=estimator.name, why=why)
    headline = f"times are ESTIMATED: {headline_reason(why)}"
    return Backend(runner.name, runner, device, runner.describe(), pool, usable, headline=headline)


def _compilers(workers: int | None, usable: TemplateSet) -> CompilePool:
    try:
        return CompilePool(workers=workers, compile_options=usable.compile_options)
    except (NvrtcMissing, NvccMissing) as error:
        raise BackendError(str(error)) from error
