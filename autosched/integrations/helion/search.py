"""Search algorithm for Helion's setting ``autotuner_fn``. It uses autosched's samplers and stores every trial."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import triton
from helion.autotuner.base_search import BaseSearch, normalize_autotune_seed_configs
from helion.autotuner.benchmark_provider import LocalBenchmarkProvider
from helion.exc import InvalidConfig, NoConfigFound

from autosched.integrations.helion.emulating import emulating
from autosched.integrations.helion.estimates import EstimateProvider
from autosched.integrations.helion.problem import problem_of
from autosched.integrations.helion.space import ConfigSpace
from autosched.integrations.helion.verified import VerifiedConfigs, verified
from autosched.samplers import DEFAULT
from autosched.samplers import check as check_sampler
from autosched.samplers import sampler as make_sampler
from autosched.triton.tuning.devices import active_device
from autosched.version import VERSION
from measurements.files.data_folder import database_or_default
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial, canonical_json
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.operators.problem import whole_number
from search_spaces.spaces.schedule import Schedule

TRIALS = 64
_BATCH = 8  # number of configurations that Helion compiles in parallel
_ROUNDS = 4  # maximum rounds of proposals per trial; proposals of configurations that were tried before are skipped
_STATUSES = {
    "timeout": Status.TIMEOUT,
    "accuracy_error": Status.WRONG_RESULT,
    "filtered": Status.UNVERIFIED,
    "peer_compilation_fail": Status.COMPILE_ERROR,
    "error": Status.COMPILE_ERROR,
}


class SampledSearch(BaseSearch):  # type: ignore[misc]
    """Search with Helion's ``BaseAutotuner`` interface.

    On a GPU, Helion measures times. Without a GPU, times are ESTIMATED.

    Args:
        bound: Helion's bound kernel.
        args: Arguments of the kernel.
        database: Database of all trials; None for the default one.
        device: GPU that times are estimated for; None for the emulated GPU.
        trials: Number of configurations to try.
        sampler: Name of the sampler.
        seed: Random seed.
        filtered: Verifies each new best configuration; None for no verification.
    """

    def __init__(
        self,
        bound: Any,
        args: Sequence[Any],
        *,
        database: str | Path | None,
        device: Device | None,
        trials: int,
        sampler: str,
        seed: int,
        filtered: VerifiedConfigs | None,
    ) -> None:
        self.device = active_device() if device is None else device
        # use the storage's device, because a tensor of a simulated GPU itself reports a CUDA device
        on_gpu = any(isinstance(a, torch.Tensor) and a.untyped_storage().device.type != "cpu" for a in args)
        self.provenance = Provenance.MEASURED if on_gpu else Provenance.ESTIMATED
        provider = LocalBenchmarkProvider if on_gpu else partial(EstimateProvider, device=self.device)
        super().__init__(bound, args, provider)
        self._database = database_or_default(database)
        self._trials, self._sampler, self._seed = trials, sampler, seed
        self._verified = filtered
        self._problem = problem_of(bound.kernel, args)
        self._domain = ConfigSpace.of(bound)
        self._toolchain = f"Helion {importlib.metadata.version('helion')}, Triton {triton.__version__}"
        source = f"{bound.kernel.kernel_source()}\0{self._domain.space.fingerprint}"
        self._version = hashlib.sha256(source.encode()).hexdigest()[:16]
        self.measured: dict[Schedule, Measurement] = {}

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """Return the recorded winner for this source, device and versions, or the winner of a new search.

        Args:
            skip_cache: If True, search even if a winner is recorded.

        Returns:
            The configuration.

        Raises:
            helion.exc.NoConfigFound: No configuration passes.
            StoreError: The database cannot be used.
            ValueError: Helion's default configuration does not pass.
        """
        with Store.open(self._database) as store:
            self._restore(store)
        best = None if skip_cache else self._best()
        return super().autotune(skip_cache=skip_cache) if best is None else best

    def best(self, count: int) -> list[Any]:
        """Return the best verified configurations, in ascending order of time."""
        timed = [(m.timing.median, s) for s, m in self.measured.items() if m.timing is not None]
        configs: dict[str, Any] = {}
        for _, schedule in sorted(timed, key=lambda pair: pair[0]):
            config = self._domain.config(schedule)
            configs.setdefault(config.to_json(), config)
        return list(configs.values())[:count]

    def _best(self) -> Any:
        return next(iter(self.best(1)), None)

    def _restore(self, store: Store) -> None:
        for trial in store.trials(self._problem, self.device.name, self.provenance):
            if trial.template_version == self._version and trial.toolchain == self._toolchain:
                self.measured[trial.schedule] = trial.measurement

    def _autotune(self) -> Any:
        sampler = make_sampler(self._sampler, self._domain.space, seed=self._seed)
        for schedule, measurement in self.measured.items():
            sampler.tell(schedule, measurement)
        with Store.open(self._database) as store:
            proposals = self._proposals(sampler)
            while schedules := list(islice(proposals, _BATCH)):
                for schedule, measurement in self._measured(schedules):
                    self.measured[schedule] = measurement
                    sampler.tell(schedule, measurement)
                    store.append(self._trial(schedule, measurement))
        best = self._best()
        if best is None:
            raise NoConfigFound
        return best

    def _proposals(self, sampler: Any) -> Iterator[Schedule]:
        """Yield Helion's default configuration, seeds from user and compiler, and then the sampler's proposals."""
        spec = self.config_spec
        seeds = [spec.default_config(), *normalize_autotune_seed_configs(self.settings), *spec.autotune_seed_configs()]
        first = [s for s in map(self._domain.schedule, seeds) if s is not None]
        known = {self._name(schedule) for schedule in self.measured}
        num_proposed, batch = 0, first
        for _ in range(_ROUNDS * self._trials):
            for schedule in batch:
                name = self._name(schedule)
                if name in known:
                    continue
                if num_proposed == self._trials:
                    return
                known.add(name)
                num_proposed += 1
                yield schedule
            batch = sampler.ask(_BATCH)
            if not batch:
                return

    def _name(self, schedule: Schedule) -> str:
        """Return the key of a schedule's configuration.

        Schedules that Helion repairs to the same configuration share a key.
        """
        try:
            return str(self._domain.config(schedule).to_json())
        except InvalidConfig:
            return schedule.key()

    def _measured(self, schedules: Sequence[Schedule]) -> Iterator[tuple[Schedule, Measurement]]:
        configs, compiled = [], []
        for schedule in schedules:
            try:
                configs.append(self._domain.config(schedule))
                compiled.append(schedule)
            except InvalidConfig as error:
                yield schedule, Measurement(Status.COMPILE_ERROR, self.provenance, f"Helion refuses it: {error}")
        best = min((m.timing.median for m in self.measured.values() if m.timing is not None), default=math.inf)
        for schedule, result in zip(
            compiled, self.benchmark_batch(configs, raise_if_no_viable_config=False), strict=True
        ):
            measurement = self._measurement(result, best)
            if measurement.timing is not None:
                best = min(best, measurement.timing.median)
            yield schedule, measurement

    def _measurement(self, result: Any, best: float) -> Measurement:
        """Convert Helion's result to a measurement. A new best configuration is verified first."""
        seconds = result.perf * 1e-3
        if not 0 < seconds < math.inf:
            status = _STATUSES.get(result.status, Status.CRASHED)
            known = getattr(self.benchmark_provider, "reasons", {})
            why = known.get(result.config.to_json(), f"Helion: {result.status}")
            return Measurement(status, self.provenance, why, compile_seconds=result.compile_time)
        if seconds < best and self._verified is not None and self._verified(result.config) is None:
            why = next(
                (why for config, why in self._verified.refused if config == result.config),
                "the configuration is not verified",
            )
            return Measurement(Status.WRONG_RESULT, self.provenance, why, compile_seconds=result.compile_time)
        timing = Timing.estimate(seconds) if self.provenance is Provenance.ESTIMATED else Timing.of([seconds])
        return Measurement(Status.OK, self.provenance, timing=timing, compile_seconds=result.compile_time)

    def _trial(self, schedule: Schedule, measurement: Measurement) -> Trial:
        return Trial(
            problem_key=self._problem.key(),
            schedule=schedule,
            device=self.device.name,
            fingerprint=canonical_json({"device": self.device.name, "sm": self.device.arch}),
            template_version=self._version,
            space_version=self._domain.space.fingerprint,
            kernel_digest=None,
            measurement=measurement,
            toolchain=self._toolchain,
            driver="",
            autosched_version=VERSION,
            created=datetime.now(UTC),
            sampler=self._sampler,
            seed=self._seed,
        )


def autotuner(
    database: str | Path | None = None,
    *,
    device: str | Device | None = None,
    trials: int = TRIALS,
    sampler: str = DEFAULT,
    seed: int = 0,
    verify: bool = True,
    verification_args: Sequence[Any] | None = None,
) -> Callable[..., SampledSearch]:
    """Return a function for Helion's setting ``autotuner_fn``, which uses the recorded winner or else searches.

    On a GPU, Helion times configurations. For CPU tensors, times are ESTIMATED. Every trial is stored.

    Args:
        database: A path or an SQLAlchemy URL; None for the default database.
        device: Name or row of the GPU that times are estimated for; None for the emulated GPU.
        trials: Number of configurations that a search tries.
        sampler: Name of the sampler.
        seed: Random seed.
        verify: If True, each new best configuration is emulated. It must have no fault, and compute the same results as
            Helion's default configuration.
        verification_args: Small tensors for verification; None for the arguments themselves.

    Returns:
        The function for the setting.

    Raises:
        ValueError: An unknown device or sampler, or an invalid number.
    """
    check_sampler(sampler, seed)
    trials = whole_number("trials", trials, 1)
    row = device_named(device) if isinstance(device, str) else device

    def make(bound: Any, args: Sequence[Any], **_: Any) -> SampledSearch:
        where = active_device() if row is None else row
        small = args if verification_args is None else verification_args
        filtered = verified(bound.kernel, small, device=where) if verify else None
        return SampledSearch(
            bound,
            args,
            database=database,
            device=where,
            trials=trials,
            sampler=sampler,
            seed=seed,
            filtered=filtered,
        )

    return make


def seeds(
    kernel: Any,
    args: Sequence[Any],
    *,
    device: str | Device,
    count: int = 4,
    trials: int = 32,
    database: str | Path | None = None,
    seed: int = 0,
    verify: bool = True,
    verification_args: Sequence[Any] | None = None,
) -> list[Any]:
    """Search without a GPU for configurations to pass to Helion as its setting ``autotune_seed_configs``.

    Args:
        kernel: Result of ``@helion.kernel``.
        args: Arguments of the kernel. Tensors are copied to the CPU.
        device: Name or row of the GPU that estimates are for.
        count: Maximum number of configurations to return.
        trials: Number of configurations to try.
        database: Database of all trials; None for the default one.
        seed: Random seed.
        verify: As in ``autotuner``.
        verification_args: As in ``autotuner``.

    Returns:
        The configurations with the lowest ESTIMATED times, in ascending order.

    Raises:
        ValueError: An unknown device.
    """
    row = device_named(device) if isinstance(device, str) else device
    cpu_args = tuple(a.detach().cpu() if isinstance(a, torch.Tensor) else a for a in args)
    make_autotuner = autotuner(
        database, device=row, trials=trials, seed=seed, verify=verify, verification_args=verification_args
    )
    with emulating(row):
        search = make_autotuner(kernel.bind(cpu_args), cpu_args)
        search.autotune(skip_cache=len(search.best(count)) < count)
    return search.best(count)
