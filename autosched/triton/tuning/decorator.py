"""``@autosched.triton.tune``: a Triton function that is launched with the best configuration that a database knows."""

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
    """What the decorator makes of a function: launched as ever, ``kernel[grid](...)``, and tuned by ``kernel.tune``.

    Args:
        function: What ``triton.jit`` made.
        space: Values of each parameter that may vary; None for those of ``triton.autotune``, else powers of two.
        rules: Conditions that a configuration must satisfy.
        default: Values to start from and to compare with; None for the first.
        reference: Computes what the kernel must; None compares with the default configuration.
        tolerance: (relative, absolute); None for that of the types.
        database: A path or an SQLAlchemy URL; None for the usual one.
        trials: Of each problem that the database does not know.
        verification_args: Makes smaller arguments to verify on; None for those of the call.
        workers: Processes that compile; None for one per core.
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

        The first call of a problem that the database does not know tunes it, without a GPU.

        Args:
            args: Positional arguments of the kernel.
            grid: As the kernel is launched with.
            warmup: Whether the kernel is only compiled.
            kwargs: Arguments of the kernel by name.

        Returns:
            What ``triton.jit`` returns: the compiled kernel.

        Raises:
            ValueError: As of ``tune``.
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
            grid: As the kernel is launched with.
            device: The name of the GPU, or its row.
            trials: How many further configurations; None for those of the decorator.
            database: None for that of the decorator.
            verification: A smaller call to verify on: ``grid`` and arguments by name. None for ``verification_args`` of
                the decorator.
            options: Further ones of ``SearchOptions``, and ``compile_seconds`` of ``tune_call``.
            kwargs: Arguments of the kernel by name.

        Returns:
            As ``autosched.tune``.

        Raises:
            ValueError: Input that cannot be used, before anything is written.
            HostFailure: This machine cannot emulate.
        """
        function = self.tuning.function
        storages = _storages()
        given = verification
        if given is None and self.verification_args is not None:
            with TrackedTensors(storages, UndefinedValues(storages, lambda *_: None)):
                given = self.verification_args()
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
            verification_call=None if given is None else KernelCall.of(function, given),
            storages=storages,
            compile_seconds=compile_seconds,
        )

    def best(self, *args: Any, grid: Any, device: str | Device, **kwargs: Any) -> Trial | None:
        """Return what the database knows to be fastest for this call, if anything that the space still has.

        Args:
            args: Positional arguments of the kernel.
            grid: As the kernel is launched with.
            device: The name of the GPU, or its row.
            kwargs: Arguments of the kernel by name.

        Returns:
            The trial; None where there is no database, none for this problem, or one of another version of the
            function.

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
    """Those of the emulated program, where one runs: they know which bytes hold no values."""
    found = getattr(emulated_launcher(), "storages", None)
    return found if isinstance(found, Storages) else Storages()


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
    """Decorate a Triton function so that ``database`` says with which configuration it is launched.

    Args:
        space: values to try, by the names of ``tl.constexpr`` parameters and of ``num_warps``, ``num_stages``,
            ``num_ctas``, ``maxnreg``. Without it, the list of ``@triton.autotune`` below; else powers of two.
        rules: what every configuration must satisfy, such as ``"BLOCK_M * BLOCK_N <= 16384"``.
        default: the configuration that others are verified against; by default the first listed, or Triton's defaults
            and first values.
        reference: called with the arguments by name, returns the outputs by name.
        tolerance: relative and absolute errors that are allowed.
        database: a path or URL; by default the user's.
        trials: of a search that the first call of a problem starts.
        verification_args: makes a smaller call to verify configurations on: a dict of ``grid`` and the arguments by
            name.
        workers: processes that compile, by default one per core; 0: this process does.
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
