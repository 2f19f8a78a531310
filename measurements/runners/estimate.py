"""Backend without a GPU: each candidate is really compiled for the named device, and a model predicts its time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from measurements.compile import CompileFailure, CompilePool
from measurements.compile_cache import Compiled
from measurements.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.runners.base import Candidate, runnable
from search_spaces.hardware.devices import Device

Predict = Callable[[Candidate, Resources], float | None]


class EstimateRunner:
    """``predict`` gives seconds for a candidate and what ptxas allotted to it, or None where it cannot say; ``model``
    names it and its version.

    The pool stays the caller's to close. ``why`` says why nothing is measured, for ``describe``.
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
        because = f": {self._why}" if self._why else ""
        return (
            f"backend estimate{because}; candidates are compiled for {self._device.name} ({self._device.arch}) by "
            f"{self._pool.toolchain}, and their times are ESTIMATED by {self._model}, not measured"
        )

    def fingerprint(self) -> dict[str, str]:
        return {
            "device": self._device.name,
            "sm": self._device.arch,
            "sm_count": str(self._device.sm_count),
            "toolchain": self._pool.toolchain,
            "model": self._model,
        }

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        """Compile candidates that will be measured next."""
        self._pool.prepare([c.kernel for c in candidates], self._device.arch)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """As the contract says. Raises ValueError if ``predict`` gives something that is not a time."""
        if self._closed:
            raise RuntimeError("the runner is closed")
        for position, result in self._pool.compile_many([c.kernel for c in candidates], self._device.arch):
            if self._closed:
                return
            yield position, self._measurement(candidates[position], result)

    def close(self) -> None:
        self._closed = True

    def _measurement(self, candidate: Candidate, result: Compiled | CompileFailure) -> Measurement:
        compiled = runnable(candidate, result, self._device, self.provenance)
        if isinstance(compiled, Measurement):
            return compiled
        seconds = self._predict(candidate, compiled.resources)
        if seconds is None:
            return Measurement(
                Status.UNRANKED,
                self.provenance,
                "it compiles, but its cost is not known, so that no time can be estimated",
                resources=compiled.resources,
                compile_seconds=compiled.compile_seconds,
                code=compiled.code,
            )
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"{self._model} predicted {seconds} s, which is not a time")
        return Measurement(
            Status.OK,
            self.provenance,
            timing=Timing.estimate(seconds),
            resources=compiled.resources,
            compile_seconds=compiled.compile_seconds,
            code=compiled.code,
        )
