"""Estimate times of Helion's configurations without a GPU, from their compiled Triton launches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult

from autosched.integrations.helion.emulating import on_cpu_tensors
from autosched.triton.driver import activated
from autosched.triton.storages import Storages
from autosched.triton.tuning.compiling.candidate import Capture, NotLaunched, candidate_of, refusal_of
from autosched.triton.tuning.runner import TritonEstimateRunner
from measurements.trials.measurement import Status
from search_spaces.hardware.devices import Device


class EstimateProvider(BenchmarkProvider):  # type: ignore[misc]
    """Provides estimated times to Helion, computed with CPU tensors of the tuned sizes.

    The host code of each configuration runs, and the times of its launches are estimated.

    Args:
        kernel: The bound kernel.
        settings: Helion's settings; ignored.
        config_spec: Helion's specification of configurations; ignored.
        args: CPU tensors of the tuned sizes.
        log: Helion's log; ignored.
        autotune_metrics: Helion's metrics, in which configurations are counted.
        device: GPU whose times are estimated.
    """

    mutated_arg_indices: Sequence[int] = ()

    def __init__(
        self,
        kernel: Any,
        settings: Any,
        config_spec: Any,
        args: Sequence[Any],
        log: Any,
        autotune_metrics: Any,
        *,
        device: Device,
    ) -> None:
        self.reasons: dict[str, str] = {}  # reasons why a configuration has no time, by configuration
        self._kernel, self._args, self._metrics = kernel, args, autotune_metrics
        self._device = device
        self._runner = TritonEstimateRunner(device, _none)

    def setup(self) -> None:
        """Do nothing, because no preparation is needed."""

    def cleanup(self) -> None:
        """Do nothing, because there is nothing to release."""

    def benchmark(
        self, configs: list[Any], *, desc: str = "Benchmarking", raise_if_no_viable_config: bool = True
    ) -> list[Any]:
        """Return the milliseconds of each configuration; infinity if it does not compile, or if no block fits."""
        results = []
        for config in configs:
            began = time.monotonic()
            function, seconds, why = self._estimated(config)
            self._metrics.num_configs_tested += 1
            if why:
                self.reasons[config.to_json()] = why
            status = "error" if why else "ok"
            spent = time.monotonic() - began
            results.append(BenchmarkResult(config, function, seconds * 1e3, status, spent, time.perf_counter()))
        return results

    def _estimated(self, config: Any) -> tuple[Callable[..., Any], float, str]:
        function: Callable[..., Any] = _none
        capture = Capture(self._device, [])
        try:
            with activated(capture), on_cpu_tensors(self._device):
                function = self._kernel.compile_config(config)
                function(*self._args)
        except Exception as error:  # Helion and Triton raise many types of exceptions
            return function, math.inf, refusal_of(error, self._device).reason
        total = 0.0
        for launch in capture.launches:
            try:
                status, why, seconds = self._runner.estimated(candidate_of(launch, Storages()))
            except NotLaunched as refused:
                return function, math.inf, refused.reason
            if status is not Status.OK:
                return function, math.inf, why
            total += seconds
        return function, total or math.inf, "" if total else "it launches nothing"


def _none(*_: Any, **__: Any) -> Any:
    return None
