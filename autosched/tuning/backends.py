"""Which backend tunes: measuring on a GPU of this machine, replaying a recording, or estimating; and why."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from autosched.proofs.launch_counting import counted
from autosched.tuning.recorded_table import device_of_table, schedules_of_table
from autosched.user_kernels.problem import KernelProblem
from autosched.version import VERSION
from cost_models.analytic import predict
from cost_models.features import features
from cost_models.launch_time import CompiledResources, launch_time, least_seconds
from measurements.compiler.pool import CompilePool, NvrtcMissing, cores_beside
from measurements.records import recording
from measurements.records.measurement import Resources
from measurements.runners.base import Candidate, Runner
from measurements.runners.cuda.runner import CudaOptions, CudaRunner, cuda_available, cuda_count, cuda_device
from measurements.runners.estimate import EstimateRunner, Predict
from measurements.runners.fleet.actors import FleetOptions
from measurements.runners.fleet.cluster import Fleet
from measurements.runners.fleet.compilers import FleetCompilers
from measurements.runners.fleet.runner import FleetRunner
from measurements.runners.replay import ReplayRunner, TableReplayRunner
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem, whole_number
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate, TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import OperatorModel, TrainedModel

BACKENDS = ("auto", "cuda", "estimate", "ray", "replay")
DEFAULT_DEVICE = "h200"  # where none is named and no GPU answers

TRAINED = "the trained model"  # what estimates by one are called, before its digest
Gpus = Sequence[int] | Literal["all"]  # numbers as CUDA counts them


class BackendError(ValueError):
    """The backend cannot be used here. The message is one sentence that says what to do."""


@dataclass(frozen=True)
class Backend:
    """A runner and the device that its times are for. Closing it ends every process.

    ``line`` says for people which it is, on what, and why; ``headline`` is short: what its times are. ``schedules`` are
    all that the runner knows, where it does not know every one; ``pool`` compiles, if anything does; ``gpus`` is how
    many measure at a time.
    """

    name: str
    runner: Runner
    device: Device
    line: str
    pool: CompilePool | None
    templates: TemplateSet
    schedules: tuple[Schedule, ...] | None = None
    headline: str = ""
    gpus: int = 0
    fleet: Fleet | None = None

    def close(self) -> None:
        self.runner.close()
        if self.pool is not None:
            self.pool.close()
        if self.fleet is not None:
            self.fleet.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def choose(
    backend: str = "auto",
    device: str | Device | None = None,
    *,
    problem: Problem | None = None,
    workers: int | None = None,
    warm_cache: bool = False,
    gpus: Gpus | None = None,
    templates: Iterable[str | KernelTemplate] | None = None,
    model: TrainedModel | None = None,
    ray: str | None = None,
    power: bool = False,
    recording_file: str | Path | None = None,
) -> Backend:
    """The backend called ``backend``, for ``device`` (a name, a row, or None for the GPU of this machine).

    "auto" measures where a GPU answers that is the device asked for. Elsewhere it replays, where ``problem`` was
    recorded on the device with today's space, and else estimates; for h200 where no device is named. A device is never
    replaced by a similar one. ``workers`` compilers, by default one per core. ``warm_cache`` times with operands in the
    L2, which only measuring can. ``gpus`` measure, all of one kind: by default GPU 0 alone, because the others of a
    shared machine may be somebody's. ``templates`` are to be searched, by default all that can compute ``problem``.
    ``model`` estimates times, by default the analytic model. ``ray`` is the address of a cluster whose GPUs of the kind
    ``device`` measure; the backend "ray" alone takes the one that this machine belongs to. ``power`` measures that of
    the GPU, too. ``recording_file`` is what "replay" replays: a cache or T4 file of Kernel Tuner's, a recording, a
    database. Raises ValueError (BackendError, FleetError, UnknownDevice, RecordingError, TableError) for what cannot be
    used; no process is started then.
    """
    if backend not in BACKENDS:
        raise BackendError(f"unknown backend {backend!r}: use one of {', '.join(BACKENDS)}")
    if workers is not None:
        workers = whole_number("workers", workers, 1)
    if gpus is not None and gpus != "all":
        if isinstance(gpus, str) or not isinstance(gpus, Sequence):
            raise BackendError(f'gpus must be "all" or a list of numbers, such as [0, 1], not {gpus!r}')
        gpus = [whole_number("gpus", gpu, 0) for gpu in gpus]
        if not gpus or len(set(gpus)) < len(gpus):
            raise BackendError(
                f"gpus must name at least one GPU, and each once, not {', '.join(map(str, gpus)) or 'none'}"
            )
    if recording_file is not None:
        if backend != "replay":
            raise BackendError("a recording is for the backend replay: give --backend replay")
        if power:
            raise BackendError("power is measured on a GPU alone: choose another objective")
        return _of_table(problem, device, recording_file, templates)
    if ray is not None or backend == "ray":
        if backend not in ("auto", "ray") or gpus is not None:
            raise BackendError("a Ray cluster measures on all its GPUs of a kind: leave --backend and --gpus out")
        return _of_cluster(ray or "auto", device, problem, workers, warm_cache, templates)
    asked = backend in ("auto", "cuda")
    used, gpu, no_gpu = _gpus(gpus) if asked else ((), None, f"backend {backend} was asked for")
    wanted = _wanted(device, gpu)
    if gpu is not None and wanted not in (None, gpu):
        no_gpu = f"the GPU of this machine is {gpu.name}, not {wanted.name if wanted else ''}"
        gpu = None
    if backend == "cuda" and gpu is None:
        raise BackendError(f"the backend cuda cannot measure ({no_gpu}): use --backend estimate to go on without it")
    if warm_cache and gpu is None:
        raise BackendError(f"a warm cache concerns times measured on a GPU ({no_gpu}): leave --warm-cache out")
    if gpus is not None and gpu is None:
        raise BackendError(f"gpus need a GPU to measure on ({no_gpu}): leave --gpus out")
    if backend == "replay" or (backend == "auto" and gpu is None):
        replaying, why_not = _replay(problem, wanted or device_row(DEFAULT_DEVICE), no_gpu, templates)
        if replaying is not None:
            return replaying
        if backend == "replay":
            raise BackendError(f"there is nothing to replay: {why_not}; use --backend estimate to go on without it")
        no_gpu = f"{no_gpu}; {why_not}"
    if power and gpu is None:
        raise BackendError(f"power is measured on a GPU alone ({no_gpu}): choose another objective")
    wanted = gpu or wanted or device_row(DEFAULT_DEVICE)
    usable = TemplateSet(()) if problem is None else templates_for(problem, wanted, templates)
    try:
        pool = CompilePool(workers=workers or (cores_beside(len(used)) if gpu is not None else None))
    except NvrtcMissing as error:
        raise BackendError(str(error)) from error
    runner: Runner
    if gpu is not None:
        runner = CudaRunner(gpu, pool, gpus=used, options=CudaOptions(warm_cache=warm_cache, power=power))
        headline = f"times are MEASURED on {'the GPU' if len(used) == 1 else f'{len(used)} GPUs'} of this machine"
    else:
        estimate: Predict = Estimate(wanted, usable)
        by = f"the analytic model of autosched {VERSION}"
        if model is not None and problem is not None:
            estimate = TrainedEstimate(wanted, usable, model.of(problem))
            by = f"{TRAINED} {model.digest[:12]} (of {model.provenance} times)"
        runner = EstimateRunner(wanted, pool, estimate, model=by, why=no_gpu)
        headline = f"times are ESTIMATED: {_short(no_gpu)}"
    measuring = len(used) if gpu is not None else 0
    return Backend(runner.name, runner, wanted, runner.describe(), pool, usable, headline=headline, gpus=measuring)


def _of_cluster(
    address: str,
    device: str | Device | None,
    problem: Problem | None,
    workers: int | None,
    warm_cache: bool,
    templates: Iterable[str | KernelTemplate] | None,
) -> Backend:
    """A backend over the GPUs of a Ray cluster. Raises ValueError where it has none of the kind."""
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


def _of_table(
    problem: Problem | None,
    device: str | Device | None,
    path: str | Path,
    templates: Iterable[str | KernelTemplate] | None,
) -> Backend:
    """A backend over a file of measurements of ``problem``, on ``device`` or on that which the file names."""
    if problem is None:
        raise BackendError("there is nothing to replay: no problem was named")
    row = device if isinstance(device, Device) else device_of_table(path) if device is None else device_row(device)
    if row is None:
        raise BackendError(f"{path} does not name a GPU that is known here: say which one it is of by --device")
    usable = templates_for(problem, row, templates)
    table, measurements = schedules_of_table(path, problem, usable, row)
    left_out = len(table.measurements) - len(measurements)
    origin = f"{path}, {table.kernel} on {table.device}"
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    runner = TableReplayRunner(measurements, origin, digest)
    line = f"{runner.describe()}{f'; {left_out} others have values that the kernel has not' if left_out else ''}"
    headline = f"times are REPLAYED from {path}"
    return Backend(runner.name, runner, row, line, None, usable, runner.schedules, headline)


def _short(why: str) -> str:
    """The reason without its details, which follow a colon or a semicolon."""
    return why.partition(":")[0].partition(";")[0]


def _gpus(wanted: Gpus | None) -> tuple[tuple[int, ...], Device | None, str]:
    """The GPUs to use and their device; or none, None, and one line on why there is none to use.

    Raises BackendError where GPUs answer, but not those that are wanted, or where these are of several kinds.
    """
    there = 1 if wanted is None else cuda_count()
    if there == 0:
        return (), None, f"no GPU on this machine answers: {cuda_available(0)[1]}"
    used = tuple(range(there)) if wanted is None or wanted == "all" else tuple(wanted)
    for gpu in used:
        if not 0 <= gpu < there:
            raise BackendError(f"there is no GPU {gpu}: CUDA shows {there} here, numbered from 0")
        answers, why = cuda_available(gpu)
        if not answers:
            return (), None, f"no GPU on this machine answers: {why}"
    try:
        kinds = {gpu: cuda_device(gpu) for gpu in used}
    except ValueError as error:
        return (), None, str(error)
    first = kinds[used[0]]
    for gpu, kind in kinds.items():
        if kind != first:
            raise BackendError(
                f"GPU {used[0]} ({first.name}, {first.sm_count} SMs) and GPU {gpu} ({kind.name}, {kind.sm_count} SMs) "
                "are of different kinds, whose times do not compare: name GPUs of one kind"
            )
    return used, first, ""


def _replay(
    problem: Problem | None, device: Device, why: str, templates: Iterable[str | KernelTemplate] | None
) -> tuple[Backend | None, str]:
    """A backend over the recording of ``problem`` on ``device``, or one line on why there is none."""
    if problem is None:
        return None, "no problem was named"
    try:
        found = recording.find(problem, device.name)
    except recording.RecordingError as error:
        raise BackendError(f"{error}; replace or delete that file, or use --backend estimate") from error
    if found is None:
        return None, f"this problem was not recorded on {device.name}"
    usable = templates_for(problem, device, templates)
    members = usable.space(problem, device).members
    today = {name for name, version in found.spaces.items() if name in members and members[name].fingerprint == version}
    if not today:
        version = found.autosched_version
        return None, f"it was recorded on {device.name} with the space of autosched {version}, which is another one now"
    runner = ReplayRunner(found, why=why)
    headline = f"times are REPLAYED: {_short(why)}"
    schedules = tuple(schedule for schedule in runner.schedules if schedule.template in today)
    return Backend(runner.name, runner, device, runner.describe(), None, usable, schedules, headline), ""


def _wanted(device: str | Device | None, gpu: Device | None) -> Device | None:
    """The device asked for. Raises UnknownDevice for a name that is neither a row nor the GPU of this machine."""
    if device is None or isinstance(device, Device):
        return device
    if gpu is not None and isinstance(device, str) and device.lower() == gpu.name:
        return gpu  # with its own clocks and sizes, which may differ from the row's
    try:
        return device_row(device)
    except UnknownDevice as error:
        here = f" (the GPU of this machine is {gpu.name})" if gpu is not None else ""
        raise UnknownDevice(f"{error}{here}") from error


@dataclass(frozen=True)
class Estimate:
    """Seconds of a compiled candidate of one of ``templates`` on ``device``, by the analytic models.

    Templates of ours have counts of their own. Whatever has none, and every kernel of the user's, is counted while some
    of its blocks are emulated; a cost that the user states is what the time is at least.
    """

    device: Device
    templates: TemplateSet

    def __call__(self, candidate: Candidate, resources: Resources) -> float | None:
        """None where the template has no cost counts and the emulator cannot count them."""
        template, problem, schedule = self.templates.of(candidate.schedule), candidate.problem, candidate.schedule
        spilled = resources.spill_store_bytes + resources.spill_load_bytes
        stated = None
        if template.counts is not None:
            stated = template.counts(problem, template.config(problem, schedule, self.device), self.device)
        if stated is not None and not isinstance(problem, KernelProblem):
            return predict(stated, self.device, registers=resources.registers, spill_bytes=spilled)
        counts = counted(template, problem, schedule, self.device)
        if counts is not None:
            allotted = CompiledResources(resources.registers, spilled, resources.static_shared_bytes)
            least = 0.0 if stated is None else least_seconds(counts, stated, self.device)
            return max(launch_time(counts, self.device, allotted).seconds, least)
        if stated is None:
            return None
        shared = stated.shared_bytes + resources.static_shared_bytes
        stated = dataclasses.replace(stated, shared_bytes=shared)
        return predict(stated, self.device, registers=resources.registers, spill_bytes=spilled)


@dataclass(frozen=True)
class TrainedEstimate:
    """Seconds of a candidate of one of ``templates`` on ``device``, by a trained model."""

    device: Device
    templates: TemplateSet
    model: OperatorModel

    def __call__(self, candidate: Candidate, resources: Resources) -> float | None:
        """None where the template has no cost counts."""
        if self.templates.of(candidate.schedule).counts is None:
            return None
        table = features(self.templates, candidate.problem, [candidate.schedule], self.device)
        return math.exp(float(self.model.predict(table)[0]))
