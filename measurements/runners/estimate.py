"""Backend without a GPU: compile candidates for a device, and predict their times with a model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.runners.base import Candidate, runnable
from measurements.runners.streams import PoolRunner, PoolStream
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from search_spaces.hardware.devices import Device

Predict = Callable[[Candidate, Resources, Compiled], float | None]


class EstimateRunner(PoolRunner):
    """Estimate times of compiled kernels.

    Args:
        device: GPU whose times are estimated.
        compile_pool: Compilers, whose output includes registers and memory. The caller closes this pool.
        predict: Estimates the seconds of a candidate from its resources and compiled code; returns None if it cannot.
        model: Name and version of the model.
        why: Reason why nothing is measured, for ``describe``.
    """

    name = "estimate"
    provenance = Provenance.ESTIMATED

    def __init__(
        self, device: Device, compile_pool: CompilePool, predict: Predict, *, model: str = "model", why: str = ""
    ) -> None:
        self._device = device
        self._pool = compile_pool
        self._predict = predict
        self._model = model
        self._why = why
        self._closed = False

    def describe(self) -> str:
        """Describe the device, the compiler, the time model, and the reason why nothing is measured, in one line."""
        because = f": {self._why}" if self._why else ""
        target = ", ".join(text for text in (self._device.arch, self._device.note) if text)
        return (
            f"backend estimate{because}; candidates are compiled for {self._device.name} ({target}) by "
            f"{self._pool.toolchain}, and their times are ESTIMATED by {self._model}, not measured"
        )

    def fingerprint(self) -> dict[str, str]:
        """Return the device, the compiler and the time model."""
        return {
            "device": self._device.name,
            **({"derived": self._device.note} if self._device.derived else {}),
            "sm": self._device.arch,
            "sm_count": str(self._device.sm_count),
            "toolchain": self._pool.toolchain,
            "model": self._model,
        }

    def stream(self) -> PoolStream:
        """Return an empty stream. Iterating over it raises ValueError if ``predict`` returns an invalid time."""
        if self._closed:
            raise RuntimeError("the runner is closed")
        return PoolStream(
            self._pool,
            self._device.arch,
            lambda stream, *compiled: stream.results.put(compiled),
            finish=self._predicted,
        )

    def close(self) -> None:
        """Mark the runner as closed. The pool stays open, because it belongs to the caller."""
        self._closed = True

    def _predicted(
        self, compiled: tuple[int, Candidate, Compiled | CompileFailure]
    ) -> tuple[int, Measurement, float] | None:
        """Predict a time; None once the runner is closed.

        Calls are serialised, because ``predict`` may run the emulator.
        """
        if self._closed:
            return None
        position, candidate, result = compiled
        began = time.monotonic()
        measurement = self._measurement(candidate, result)
        return position, measurement, time.monotonic() - began

    def _measurement(self, candidate: Candidate, result: Compiled | CompileFailure) -> Measurement:
        compiled = runnable(candidate, result, self._device, self.provenance)
        if isinstance(compiled, Measurement):
            return compiled
        seconds = self._predict(candidate, compiled.resources, compiled)
        if seconds is None:
            return Measurement(
                Status.UNRANKED,
                self.provenance,
                "compiled, but the model cannot estimate the time",
                resources=compiled.resources,
                compile_seconds=compiled.compile_seconds,
                code=compiled.code,
            )
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"{self._model} predicted {seconds} s, which is not a valid time")
        return Measurement(
            Status.OK,
            self.provenance,
            timing=Timing.estimate(seconds),
            resources=compiled.resources,
            compile_seconds=compiled.compile_seconds,
            code=compiled.code,
        )
