"""``@autosched.triton.tune``, which launches a Triton function with the best configuration in a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autosched.triton.driver import emulated_launcher
from autosched.triton.simulated_tensors import TrackedTensors
from autosched.triton.storages import Storages
from autosched.triton.tuning.call import Arguments, KernelCall
from autosched.triton.tuning.compiling.processes import COMPILE_SECONDS
from autosched.triton.tuning.devices import active_device
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.search import TritonTuning, tune_call
from autosched.triton.tuning.space import RuleText
from autosched.triton.tuning.verifier import Reference
from autosched.triton.undefined import UndefinedValues
from autosched.tuning.options import SearchOptions
from autosched.tuning.plan import TRIALS
from autosched.tuning.result import TuneResult
from measurements.files.data_folder import default_database
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named


class TunedFunction:
    """Decorated function, launched as usual by ``kernel[grid](...)``, and tuned by ``kernel.tune``.

    Args:
        function: Function decorated with ``triton.jit``.
        space: Values of each parameter that may vary. None: the configurations of ``triton.autotune``, else powers of
            two.
        rules: Conditions that each configuration must satisfy.
        default: Values of the default configuration. The search starts from this configuration, and compares results
            with it. None: the first values.
        reference: Computes the expected outputs; None compares with the default configuration.
        tolerance: Allowed relative and absolute error; None for the default of each type.
        database: A path or an SQLAlchemy URL; None for the default database.
        trials: Number of trials of each new problem.
        verification_args: Creates smaller arguments for verification; None to verify with the arguments of the call.
        workers: Number of compile processes; None for one per core.
    """

    def __init__(
        self,
        function: Any,
        *,
        space: Mapping[str, Sequence[Any]] | None,
        rules: Sequence[RuleText],
        default: Mapping[str, Any] | None,
        reference: Reference | None,
        tolerance: tuple[float, float] | None,
        database: str | Path | None,
        trials: int,
        verification_args: Arguments | None,
        workers: int | None,
    ) -> None:
        self.fn = function
        self.tuning = TritonTuning(TritonFunction.of(function), space, tuple(rules), default, reference, tolerance)
        self.database = database
        self.trials = trials
        self.verification_args = verification_args
        self.workers = workers
        self.__name__ = self.tuning.function.name
        self.__doc__ = function.__doc__
        self._chosen: dict[tuple[str, str], dict[str, Any]] = {}

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments on Triton's device.

        If the database has no trial of the problem, the first call tunes it, without a GPU.

        Args:
            args: Positional arguments of the kernel.
            grid: Grid of the launch.
            warmup: If True, the kernel is only compiled.
            kwargs: Arguments of the kernel by name.

        Returns:
            The compiled kernel, as ``triton.jit`` returns it.

        Raises:
            ValueError: Invalid input, as for ``tune``.
        """
        function = self.tuning.function
        call = KernelCall.positional(function, grid, args, kwargs)
        row = active_device()
        key = (row.name, call.described(function))
        if key not in self._chosen:
            trial = self.best(*args, grid=grid, device=row, **kwargs)
            if trial is None:
                trial = self.tune(*args, grid=grid, device=row, **kwargs).best
            domain = self.tuning.space_of(self.tuning.problem(call))
            schedule = domain.defaults()[0] if trial is None else trial.schedule
            self._chosen[key] = domain.values(schedule)
        return function.run.run(grid=grid, warmup=warmup, **{**call.arguments, **self._chosen[key]})

    def tune(
        self,
        *args: Any,
        grid: Any,
        device: str | Device,
        trials: int | None = None,
        database: str | Path | None = None,
        verification: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> TuneResult:
        """Search the configurations of this call.

        Args:
            args: Positional arguments of the kernel.
            grid: Grid of the launch.
            device: Name or row of the GPU.
            trials: Number of further configurations; None for the number passed to the decorator.
            database: A path or URL; None for the database passed to the decorator.
            verification: A smaller call for verification, as ``grid`` and arguments by name. None: use
                ``verification_args`` of the decorator.
            options: Further options of ``SearchOptions``, and ``compile_seconds`` of ``tune_call``.
            kwargs: Arguments of the kernel by name.

        Returns:
            The result, as returned by ``autosched.tune``.

        Raises:
            ValueError: Invalid input, before anything is written.
            HostFailure: This machine cannot run the emulator.
        """
        function = self.tuning.function
        storages = _storages()
        verification_call = verification
        if verification_call is None and self.verification_args is not None:
            with TrackedTensors(storages, UndefinedValues(storages, lambda *_: None)):
                verification_call = self.verification_args()
        further = {"workers": self.workers, **(options or {})}
        compile_seconds = further.pop("compile_seconds", COMPILE_SECONDS)
        return tune_call(
            self.tuning,
            KernelCall.positional(function, grid, args, kwargs).on_the_cpu(),
            device,
            SearchOptions(
                trials=self.trials if trials is None else trials,
                database=self.database if database is None else database,
                **further,
            ),
            verification_call=None if verification_call is None else KernelCall.of(function, verification_call),
            storages=storages,
            compile_seconds=compile_seconds,
        )

    def best(self, *args: Any, grid: Any, device: str | Device, **kwargs: Any) -> Trial | None:
        """Return the best trial for this call in the database, if the space still has the trial's configuration.

        Args:
            args: Positional arguments of the kernel.
            grid: Grid of the launch.
            device: Name or row of the GPU.
            kwargs: Arguments of the kernel by name.

        Returns:
            The trial. None if there is no database or no trial, or if the function has changed since the trial.

        Raises:
            ValueError: The call does not fit the kernel.
            StoreError: The database cannot be read.
        """
        from measurements.store.store import Store

        database = default_database() if self.database is None else self.database
        if "://" not in str(database) and not Path(database).exists():
            return None
        row = device_named(device) if isinstance(device, str) else device
        problem = self.tuning.problem(KernelCall.positional(self.tuning.function, grid, args, kwargs))
        template = self.tuning.register()
        with Store.open(database, create=False) as store:
            trial = store.best(problem, row.name)
        usable = trial is not None and trial.schedule in template.space(problem, row)
        return trial if usable and trial is not None and trial.template_version == template.version else None


def _storages() -> Storages:
    """Return the emulated program's storages, which record undefined bytes; None outside of ``emulated``."""
    storages = getattr(emulated_launcher(), "storages", None)
    return storages if isinstance(storages, Storages) else Storages()


def tune(
    space: Mapping[str, Sequence[Any]] | None = None,
    *,
    rules: Sequence[RuleText] = (),
    default: Mapping[str, Any] | None = None,
    reference: Reference | None = None,
    tolerance: tuple[float, float] | None = None,
    database: str | Path | None = None,
    trials: int = TRIALS,
    verification_args: Arguments | None = None,
    workers: int | None = None,
) -> Callable[[Any], TunedFunction]:
    """Decorate a Triton function so that it is launched with the best configuration in ``database``.

    Args:
        space: Values to try, by the names of ``tl.constexpr`` parameters and of ``num_warps``, ``num_stages``,
            ``num_ctas``, ``maxnreg``. Default: the configurations of an ``@triton.autotune`` below this decorator;
            without one, powers of two.
        rules: Conditions on every configuration, such as ``"BLOCK_M * BLOCK_N <= 16384"``.
        default: Configuration against which other configurations are verified. Default: the first listed configuration,
            or Triton's default options and the first value of each parameter.
        reference: Function that takes the arguments by name, and returns the outputs by name.
        tolerance: Allowed relative and absolute errors.
        database: A path or URL. Default: the user's database.
        trials: Number of trials of the search that the first call of a problem starts.
        verification_args: Function that returns a smaller call for verification, as a dict of ``grid`` and the
            arguments by name.
        workers: Number of compile processes. Default: one per core. 0: compile in this process.
    """

    def decorate(function: Any) -> TunedFunction:
        return TunedFunction(
            function,
            space=space,
            rules=rules,
            default=default,
            reference=reference,
            tolerance=tolerance,
            database=database,
            trials=trials,
            verification_args=verification_args,
            workers=workers,
        )

    return decorate
