"""Hooks for kernels that keep ``@triton.autotune``: a performance model, and a benchmark that stores measured times.

hooks = autosched.triton.autotune_hooks(lambda: matmul, database="best.db")

@triton.autotune(configs, key=["M", "N", "K"], do_bench=hooks.do_bench,
                 prune_configs_by={"perf_model": hooks.perf_model, "top_k": 4})
@triton.jit
def matmul(...): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import triton

from autosched.triton.driver import activated, emulated_launcher
from autosched.triton.storages import Storages
from autosched.triton.tuning.call import GRID, KernelCall
from autosched.triton.tuning.compiling.candidate import Capture, NotLaunched, compiled
from autosched.triton.tuning.devices import active_device
from autosched.triton.tuning.function import DEFAULT_OPTIONS, LAUNCH_OPTIONS, TritonFunction
from autosched.triton.tuning.runner import TritonEstimateRunner
from autosched.triton.tuning.search import TritonTuning
from autosched.triton.tuning.space import TritonSpace
from autosched.version import VERSION
from measurements.files.data_folder import default_database
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial, canonical_json
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.spaces.schedule import Schedule

NAME = "triton.autotune"  # sampler name recorded in trials that Triton's benchmark timed


class AutotuneHooks:
    """Hooks returned by ``autotune_hooks``.

    ``kernel`` is called to get the decorated function, because this function is defined after the hooks.
    """

    def __init__(
        self, kernel: Callable[[], Any], *, database: str | Path | None = None, device: str | Device | None = None
    ) -> None:
        self._kernel = kernel
        self._database = database
        self._device = device_named(device) if isinstance(device, str) else device
        self._tuning: TritonTuning | None = None

    def perf_model(self, **arguments: Any) -> float:
        """Return the ESTIMATED seconds of a configuration, for ``perf_model`` of ``prune_configs_by``. Needs no GPU.

        The result is infinite if the configuration does not compile for the device, or does not fit on the device.
        """
        tuning, row = self._tuned(), self._row()
        known = {n: v for n, v in arguments.items() if n in tuning.function.parameters or n in LAUNCH_OPTIONS}
        listed = {name for config in tuning.function.configs for name in config.all_kwargs()}
        domain = tuning.space_of_names([n for n in known if n not in listed])
        schedule = _schedule(domain, {**DEFAULT_OPTIONS, **known})
        call = KernelCall(arguments[GRID], known).on_the_cpu()
        try:
            hook = None if schedule is None else domain.hook(schedule)
            candidate = compiled(tuning.function, call, {}, hook, row, Storages())
        except NotLaunched:
            return float("inf")
        status, _, seconds = TritonEstimateRunner(row, lambda _: candidate).estimated(candidate)
        return seconds if status is Status.OK else float("inf")

    def do_bench(self, kernel_call: Callable[[], Any], quantiles: Sequence[float] | None = None, **options: Any) -> Any:
        """Return the milliseconds of a call, for ``do_bench`` of ``@triton.autotune``.

        If the database has a time for this configuration, call, device and code, this time is returned. Otherwise
        Triton's own benchmark runs, and the measured time is stored.
        """
        tuning, row = self._tuned(), self._row()
        capture = Capture(row, [])
        with activated(capture):
            kernel_call()
        if len(capture.launches) != 1:
            return self._timed(kernel_call, quantiles, options)
        launch = capture.launches[0]
        fixed = {n: v for n, v in zip(launch.names, launch.values, strict=False) if n not in launch.constants}
        domain = tuning.space_of_names([*fixed])
        options_of = {n: getattr(launch.metadata, n, DEFAULT_OPTIONS.get(n)) for n in LAUNCH_OPTIONS}
        values = {**launch.constants, **options_of}
        schedule = _schedule(domain, values)
        if schedule is None:
            return self._timed(kernel_call, quantiles, options)
        constants = {n: v for n, v in launch.constants.items() if n not in {d.name for d in domain.domains}}
        named = {**fixed, **constants}
        call = KernelCall(launch.grid, {n: named[n] for n in tuning.function.parameters if n in named})
        return self._remembered(tuning, call, schedule, row, lambda: self._timed(kernel_call, quantiles, options))

    def _remembered(
        self, tuning: TritonTuning, call: KernelCall, schedule: Schedule, row: Device, time: Callable[[], Any]
    ) -> Any:
        from measurements.store.store import Store

        provenance = Provenance.MEASURED if emulated_launcher() is None else Provenance.ESTIMATED
        template, problem = tuning.register(), tuning.problem(call)
        database = default_database() if self._database is None else self._database
        fingerprint = {"device": row.name, "sm_count": str(row.sm_count), "toolchain": f"Triton {triton.__version__}"}
        fingerprint["by"] = NAME
        with Store.open(database) as store:
            for trial in reversed(store.trials(problem, row.name, provenance)):
                same = trial.schedule == schedule and trial.template_version == template.version
                if same and trial.ok and trial.fingerprint == canonical_json(fingerprint):
                    timing = trial.measurement.timing
                    assert timing is not None
                    return [1e3 * timing.median, 1e3 * timing.p25, 1e3 * timing.p75]
            seconds = time()
            median, low, high = (seconds * 3)[:3] if isinstance(seconds, list) else (seconds, seconds, seconds)
            ordered = sorted(1e-3 * each for each in (low, median, high))
            store.append(
                Trial(
                    problem_key=problem.key(),
                    schedule=schedule,
                    device=row.name,
                    fingerprint=canonical_json(fingerprint),
                    template_version=template.version,
                    space_version=template.space(problem, row).fingerprint,
                    kernel_digest=template.kernel(problem, schedule, row).digest,
                    measurement=Measurement(
                        Status.OK, provenance, timing=Timing(ordered[1], ordered[0], ordered[2], 0)
                    ),
                    toolchain=fingerprint["toolchain"],
                    driver="",
                    autosched_version=VERSION,
                    created=datetime.now(UTC),
                    sampler=NAME,
                    seed=0,
                )
            )
        return seconds

    def _timed(
        self, kernel_call: Callable[[], Any], quantiles: Sequence[float] | None, options: Mapping[str, Any]
    ) -> Any:
        benchmark = triton.runtime.driver.active.get_benchmarker()
        return benchmark(kernel_call, quantiles=quantiles, **options)

    def _tuned(self) -> TritonTuning:
        if self._tuning is None:
            self._tuning = TritonTuning(TritonFunction.of(self._kernel()))
        return self._tuning

    def _row(self) -> Device:
        return active_device() if self._device is None else self._device


def autotune_hooks(
    kernel: Callable[[], Any], *, database: str | Path | None = None, device: str | Device | None = None
) -> AutotuneHooks:
    """Return ``perf_model`` and ``do_bench`` for a kernel that keeps its ``@triton.autotune``.

    Args:
        kernel: Function that returns the decorated function, such as ``lambda: matmul``. The decorated function itself
            does not exist yet when the hooks are created.
        database: Path or URL for the times. Default: the user's database.
        device: Name of the GPU, or its row of the device table. Default: the emulated GPU, or else Triton's GPU.

    Returns:
        The hooks.
    """
    return AutotuneHooks(kernel, database=database, device=device)


def _schedule(domain: TritonSpace, values: Mapping[str, Any]) -> Schedule | None:
    """Return the listed configuration that has these values, or None."""
    try:
        items = tuple((d.name, d.store(values.get(d.name))) for d in domain.domains)
    except StopIteration:
        return None
    return Schedule(domain.name, items)
