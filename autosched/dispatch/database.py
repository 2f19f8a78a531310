"""Tuning database as applications use it: look up the best trial of a problem, and load the kernel."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.dispatch.provenance import KernelProvenance, NoSchedule
from autosched.dispatch.resolve_cache import ResolvedCache
from measurements.files.text import first_line, without_password
from measurements.trials.measurement import Provenance
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:  # slow imports are deferred to the functions that query the database
    from autosched.dispatch.any_size import KernelOfAnySize
    from autosched.dispatch.kernel import LoadedKernel
    from autosched.dispatch.lookup import Answer
    from measurements.store.store import Store
    from measurements.trials.trial import Trial
    from search_spaces.programs.builder import Program

__all__ = ["Database", "NoSchedule", "NotTuned", "StaleSchedule", "device_name"]


class StaleSchedule(UserWarning):
    """Warning: the device, software or kernel code has changed since the schedule in use was timed."""


class NotTuned(UserWarning):
    """Warning: another schedule is used, because the problem has no usable trial on this device."""


class Database:
    """Read access to an existing tuning database, given as a path or SQLAlchemy URL.

    If the database has no trial of a problem, look-ups use the recordings that come with autosched. If the path is
    None, look-ups use only these recordings: they find recorded problems and the neighbours of recorded problems.

    The database file and its folder may be read-only, and other processes may use the database meanwhile. Thread-safe.
    Raises StoreError, a ValueError, as ``Store.open`` does.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened: Store | None = None
        self._warned: set[str] = set()  # problems about which a warning was already issued
        # for each problem, the trial that passed the last check of validity; it is not checked again
        self._checked: dict[Problem, Trial] = {}
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
        """Return the best trial of exactly this problem and device, in the order of ``Store.best``.

        Args:
            problem: A problem, or a tile program.
            device: A device, or its name. None: this machine's GPU; without a GPU, the only device that has times of
                the problem.
            provenance: Restrict trials to this provenance. None: prefer measured times, then replayed times, then
                estimated times.
            sizes: Sizes of a tile program, by name.

        Returns:
            The trial; None if the database has no trial.

        Raises:
            NoSchedule: The device is ambiguous, because several devices have times, or the schedule is no longer valid.
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
        """Return the kernel that this database selects for ``problem``, and the reason. ``lookup`` describes the rules.

        Needs no GPU and compiles nothing.

        Args:
            problem: A problem, or a tile program.
            device: A device, as in ``best``.
            exact: Use only this database's trial of exactly this problem and device.
            sizes: Sizes of a tile program, by name.

        Returns:
            The selected kernel, generated but not compiled, with its provenance.

        Raises:
            NoSchedule: No kernel can be used for the problem, or the device is ambiguous.
            ValueError: The problem or device is invalid.
        """
        from autosched.dispatch.lookup import look_up

        problem = _problem(problem, sizes)
        if device is None:
            device = _gpu_row() or self._only_device(problem)
        if device is None:
            raise NoSchedule(f"{self} has no trial of this problem on any device: name the device")
        row = device if isinstance(device, Device) else device_row(device)
        return look_up(self._store, problem, row, exact=exact)

    def kernel(
        self, problem: Problem | Program, *, exact: bool = False, dependent: bool = False, **sizes: int
    ) -> LoadedKernel:
        """Return the kernel for ``problem`` on the current GPU, compiled and loaded: ``out = kernel(a, b)``.

        The first usable source determines the schedule: this database's trial of the problem, autosched's recording of
        the problem, the nearest tuned problem, the time model. ``lookup`` describes the rules, and
        ``kernel.provenance`` names the source. Warns NotTuned or StaleSchedule once per problem.

        Args:
            problem: A problem, or a tile program: ``database.kernel(program, m=4096, n=4096, k=4096)``.
            exact: Use only this database's trial of exactly this problem and GPU.
            dependent: Use programmatic dependent launch on sm_90 and newer. The kernel may start before its predecessor
                in the stream has ended; it waits for the predecessor's results. This speeds up short consecutive
                kernels, most of all in a CUDA graph.
            sizes: Sizes of a tile program, by name.

        Returns:
            The kernel, ready to be called on arrays.

        Raises:
            NoSchedule: No kernel can be used for the problem.
            RuntimeUnavailable: This machine cannot compile or launch kernels.
            ValueError: The problem is invalid.
        """
        from autosched.dispatch.generated import load_kernel
        from autosched.dispatch.kernel import RuntimeUnavailable, gpu_library
        from autosched.dispatch.packing import packed_array
        from measurements.runners.cuda.device import current_gpu, missing_driver
        from search_spaces.tile_operators.tile_problem import TileProblem

        problem = _problem(problem, sizes)
        cp = gpu_library()
        try:
            gpu = current_gpu(cp)
        except UnknownDevice as error:
            raise RuntimeUnavailable(str(error)) from error
        except Exception as error:  # without a driver or GPU, cupy raises errors of various types
            why = missing_driver() or f"{type(error).__name__}: {first_line(error)}"
            raise RuntimeUnavailable(f"kernels need a GPU, but none is usable: {why}") from error
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
            kernel = load_kernel(cp, problem, resolved.launch, resolved.cubin, resolved.provenance)
        if isinstance(problem, TileProblem):
            kernel.packing = partial(packed_array, problem.pack)
        self._warn(kernel.provenance)
        return kernel

    def kernel_of_any_size(self, program: Program, **sizes: int) -> KernelOfAnySize:
        """Return a function that runs a tile program, with dynamic sizes from the shapes of its arrays.

        ``database.kernel_of_any_size(program, n=4096, k=4096)(a, b)`` accepts an ``a`` with any number of rows, and
        uses the schedule of the nearest tuned number of rows. Raises ValueError unless ``sizes`` are exactly the
        constant sizes; calls raise as ``kernel`` does.
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
            raise NoSchedule(
                f"{store.name} has trials of this problem on several devices: name one of {', '.join(devices)}"
            )
        return devices[0] if devices else None


def _problem(problem: Problem | Program, sizes: Mapping[str, int]) -> Problem:
    """Return ``problem`` itself, or the problem that a tile program defines for ``sizes``.

    Raises:
        ValueError: ``problem`` is neither a problem nor a tile program, or the sizes do not fit it.
    """
    if isinstance(problem, Problem) and not sizes:
        return problem
    from search_spaces.programs.builder import Program

    if isinstance(problem, Program):
        from autosched.programs.loading import problem as problem_of

        return problem_of(problem, **sizes)
    Problem.check(problem)
    if "device" in sizes:
        raise ValueError(
            "kernel does not accept device=, because kernels are loaded on this machine's GPU: omit it, or use "
            "look_up(problem, device)"
        )
    raise ValueError(
        f"unexpected sizes ({', '.join(sizes)}), since {problem} already has sizes: omit them; only tile programs "
        "need sizes"
    )


def _refuse_invalid(store: Store, problem: Problem, trial: Trial) -> None:
    """Raise NoSchedule if the schedule cannot be checked, or is no longer valid for its template."""
    from autosched.dispatch.validity import refuse_invalid

    try:
        refuse_invalid(problem, trial)
    except ValueError as error:
        raise NoSchedule(
            f"the best schedule in {store.name}, of trial {trial.id}, cannot be used ({error}): tune the problem again"
        ) from error


def device_name(store: Store, device: str | Device) -> str:
    """Return the name of a device as it is stored in the trials of ``store``.

    Raises UnknownDevice for a name that is neither in the device table nor in the store, so that a misspelt name gives
    an error instead of an empty result.
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
        devices = f"; {store.name} holds {', '.join(stored)}" if stored else ""
        raise UnknownDevice(f"{error}{devices}") from error


def _provenance(name: str) -> Provenance:
    try:
        return Provenance(name)
    except ValueError:
        raise ValueError(f"unknown provenance {name!r}: use one of {', '.join(Provenance)}") from None


def _gpu_row() -> Device | None:
    """Return this machine's GPU from the device table, or None. The first call starts a process and takes a second."""
    from measurements.runners.cuda.runner import cuda_available, cuda_device

    if not cuda_available()[0]:
        return None
    try:
        return cuda_device()
    except ValueError:
        return None
