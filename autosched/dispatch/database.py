"""The results of tuning, for programs: the best trial of a problem, and its kernel."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.dispatch.provenance import KernelProvenance, NoSchedule
from autosched.dispatch.resolve_cache import ResolvedCache
from measurements.files.text import first_line, without_password
from measurements.trials.measurement import Provenance
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:  # what takes long to import is imported where the database itself is asked
    from autosched.dispatch.any_size import KernelOfAnySize
    from autosched.dispatch.kernel import LoadedKernel
    from autosched.dispatch.lookup import Answer
    from measurements.store.store import Store
    from measurements.trials.trial import Trial
    from search_spaces.programs.builder import Program

__all__ = ["Database", "NoSchedule", "NotTuned", "StaleSchedule", "device_name"]


class StaleSchedule(UserWarning):
    """Something has changed since the schedule that is used was timed."""


class NotTuned(UserWarning):
    """This problem was not tuned on this device, or what was tuned cannot be used: something else is used."""


class Database:
    """What has been tuned into a database (a path or SQLAlchemy URL), for reading. It must exist.

    Where it has no trial, look-ups use the recordings that come with autosched. With None as the path there is no
    database: only recorded problems and their neighbours are served.

    It may be read-only, in a read-only folder, and in use by others. Any number of threads may ask. Raises StoreError,
    a ValueError, as ``Store.open`` does.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._warned: set[str] = set()  # problems
        self._checked: dict[Problem, Trial] = {}  # the best that was last given, whose schedule is valid
        if path is not None and not ResolvedCache(path).known:
            self._open(path)

    def __repr__(self) -> str:
        return f"Database({None if self._path is None else without_password(str(self._path))!r})"

    def _open(self, path: str | Path) -> Store:
        from measurements.store.store import Store

        with self._lock:
            if self._opened is None:
                self._opened = Store.open(path, create=False)
            return self._opened

    @property
    def _store(self) -> Store | None:
        return self._opened or (None if self._path is None else self._open(self._path))

    def best(
        self,
        problem: Problem | Program,
        device: str | Device | None = None,
        provenance: Provenance | str | None = None,
        **sizes: int,
    ) -> Trial | None:
        """Return the best trial of exactly this problem and device, as ``Store.best`` ranks them.

        Args:
            problem: A problem, or a tile program.
            device: A name or a row. None: the GPU of this machine where one answers, else the only device that has
                times of the problem.
            provenance: One is ranked. None: measured before replayed before estimated.
            sizes: Of a tile program.

        Returns:
            The trial; None if there is none.

        Raises:
            NoSchedule: There are several devices, because times of different ones are not compared; or the schedule is
                not valid today.
            ValueError: An invalid problem, device or provenance.
        """
        problem = _problem(problem, sizes)
        kind = None if provenance is None else _provenance(provenance)
        store = self._store
        if store is None:
            return None
        if device is None:
            gpu = _gpu_row()
            name = self._only_device(problem) if gpu is None else gpu.name
        else:
            name = device_name(store, device)
        trial = None if name is None else store.best(problem, name, kind)
        if trial is not None and trial is not self._checked.get(problem):
            _refuse_invalid(store, problem, trial)
            self._checked[problem] = trial
        return trial

    def look_up(
        self, problem: Problem | Program, device: str | Device | None = None, *, exact: bool = False, **sizes: int
    ) -> Answer:
        """Say which kernel this database gives for ``problem``, and why: ``lookup`` has the rules.

        It needs no GPU, and compiles nothing.

        Args:
            problem: A problem, or a tile program.
            device: As of ``best``.
            exact: Only the trial that this database has of this problem on this device.
            sizes: Of a tile program.

        Raises:
            NoSchedule: There is nothing for the problem, or no device to look it up for.
            ValueError: An invalid problem or device.
        """
        from autosched.dispatch.lookup import look_up

        problem = _problem(problem, sizes)
        if device is None:
            device = _gpu_row() or self._only_device(problem)
        if device is None:
            raise NoSchedule(f"{self} does not have this problem for any device: name the device")
        row = device if isinstance(device, Device) else device_row(device)
        return look_up(self._store, problem, row, exact=exact)

    def kernel(
        self, problem: Problem | Program, *, exact: bool = False, dependent: bool = False, **sizes: int
    ) -> LoadedKernel:
        """Return the kernel for ``problem`` on the current GPU, compiled and loaded: ``out = kernel(a, b)``.

        What was tuned for it, else the recording of it that comes with autosched, else what was tuned for the nearest
        problem, else what the time model chooses: ``lookup`` has the rules, ``kernel.provenance`` says which it is.
        Warns NotTuned or StaleSchedule, once for each problem. With ``exact``, only what this database has of this very
        problem and GPU. Raises NoSchedule where nothing can be used,
        RuntimeUnavailable where kernels cannot be compiled or called, and ValueError for what is not a problem.
        With ``dependent``, on sm_90 and newer, the kernel may begin before the one in front of it in its stream has
        ended, and waits for that one (programmatic dependent launch): for short kernels in a row, best in a CUDA graph.
        ``problem`` may be a tile program, with its ``sizes``: ``database.kernel(program, m=4096, n=4096, k=4096)``.
        """
        from autosched.dispatch.kernel import CubinKernel, RuntimeUnavailable, cupy_module
        from measurements.runners.cuda.device import gpu_here, missing_driver

        problem = _problem(problem, sizes)
        cp = cupy_module()
        try:
            gpu = gpu_here(cp)
        except UnknownDevice as error:
            raise RuntimeUnavailable(str(error)) from error
        except Exception as error:  # whatever cupy raises where there is no driver or no GPU
            why = missing_driver() or f"{type(error).__name__}: {first_line(error)}"
            raise RuntimeUnavailable(f"kernels need a GPU, and none can be used: {why}") from error
        cache = ResolvedCache(self._path, dependent=dependent)
        resolved = cache.load(problem, gpu)
        if resolved is None or (exact and not resolved.provenance.own):
            from autosched.dispatch.resolve import resolve

            resolved = resolve(gpu, self._store, problem, exact=exact, cache=cache, dependent=dependent)
        kernel: LoadedKernel
        if resolved.launch is None or resolved.cubin is None:
            from autosched.dispatch.library_kernel import LibraryKernel

            kernel = LibraryKernel(cp, problem, resolved.provenance)
        else:
            kernel = CubinKernel(cp, resolved.launch, resolved.cubin, resolved.provenance)
        self._warn(kernel.provenance)
        return kernel

    def kernel_of_any_size(self, program: Program, **sizes: int) -> KernelOfAnySize:
        """Return a program with dynamic sizes as a function of arrays, whose shapes say these in every call.

        ``database.kernel_of_any_size(program, n=4096, k=4096)(a, b)`` takes an ``a`` of any number of rows, and uses
        the schedule of the nearest number that was tuned. Raises ValueError for other ``sizes`` than the constants;
        calls raise as ``kernel`` does.
        """
        from autosched.dispatch.any_size import KernelOfAnySize

        return KernelOfAnySize(self.kernel, program, sizes)

    def _warn(self, provenance: KernelProvenance) -> None:
        if provenance.warning and provenance.problem not in self._warned:
            self._warned.add(provenance.problem)
            category = StaleSchedule if provenance.tuned and not provenance.refused else NotTuned
            warnings.warn(provenance.warning, category, stacklevel=3)

    def _only_device(self, problem: Problem) -> str | None:
        store = self._store
        devices = () if store is None else store.devices(problem)
        if store is not None and len(devices) > 1:
            raise NoSchedule(f"{store.name} has this problem for {', '.join(devices)}: name one of them")
        return devices[0] if devices else None


def _problem(problem: Problem | Program, sizes: Mapping[str, int]) -> Problem:
    """Return a problem, or that of a tile program. Raises ValueError for what is neither."""
    if isinstance(problem, Problem) and not sizes:
        return problem
    from search_spaces.programs.builder import Program

    if isinstance(problem, Program):
        from autosched.programs.loading import problem as problem_of

        return problem_of(problem, **sizes)
    Problem.check(problem)
    if "device" in sizes:
        raise ValueError("a kernel runs on the GPU of this machine: leave device= out, or use look_up(problem, device)")
    raise ValueError(f"only tile programs take sizes ({', '.join(sizes)}): {problem} has its own")


def _refuse_invalid(store: Store, problem: Problem, trial: Trial) -> None:
    """Raise NoSchedule for a schedule that cannot be checked, or is none of its template's today."""
    from autosched.dispatch.validity import refuse_invalid

    try:
        refuse_invalid(problem, trial)
    except ValueError as error:
        raise NoSchedule(
            f"the best schedule in {store.name}, of trial {trial.id}, cannot be used ({error}): tune the problem again"
        ) from error


def device_name(store: Store, device: str | Device) -> str:
    """Return the name of a device as in the trials of ``store``.

    Raises UnknownDevice for one that is neither a row nor in the store: that is a mistake, not an empty answer.
    """
    if isinstance(device, Device):
        return device.name
    try:
        row = device_row(device).name
        return device if device != row and store.has_device(device) else row
    except UnknownDevice as error:
        if store.has_device(device):
            return device
        stored = sorted({summary.device for summary in store.problems()})
        here = f"; {store.name} holds {', '.join(stored)}" if stored else ""
        raise UnknownDevice(f"{error}{here}") from error


def _provenance(name: str) -> Provenance:
    try:
        return Provenance(name)
    except ValueError:
        raise ValueError(f"unknown provenance {name!r}: use one of {', '.join(Provenance)}") from None


def _gpu_row() -> Device | None:
    """Return the GPU of this machine, None where none can be used. Asked in another process, which takes a second
    once."""
    from measurements.runners.cuda.runner import cuda_available, cuda_device

    if not cuda_available()[0]:
        return None
    try:
        return cuda_device()
    except ValueError:
        return None
