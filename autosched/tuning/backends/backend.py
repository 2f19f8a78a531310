"""Backend of a search: compilers, a runner that times candidates, and the GPU to which the times apply."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from autosched.tuning.backends.estimators import is_counted
from measurements.compiler.pool import CompilePool
from measurements.runners.base import Runner
from measurements.runners.fleet.cluster import Fleet
from measurements.trials.measurement import Provenance
from measurements.trials.policy import NONE
from search_spaces.hardware.devices import Device
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet


class BackendError(ValueError):
    """This machine cannot use the backend. The message is one sentence with the remedy."""


@dataclass(frozen=True)
class Backend:
    """A runner that times candidates, and its GPU. ``close`` ends every process that the backend started.

    Attributes:
        name: Name of the backend.
        runner: Runner that times candidates.
        device: GPU to which the times apply.
        line: One-line description of the backend, its device, and why it was chosen.
        pool: Pool of compiler processes; None if nothing is compiled.
        templates: Kernel templates that can compute the problem.
        schedules: The only schedules that the runner can time; None if it can time all.
        headline: One line that states whether the times are measured, replayed or estimated.
        gpus: Number of GPUs that measure in parallel.
        fleet: Cluster that measures, if any.
        owned: The same Fleet as ``fleet`` if the backend must close it; else None.
        policy: Timing policy as text (``Policy``); NONE if autosched does not measure the times.
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
    owned: Fleet | None = None
    policy: str = NONE

    @property
    def model_alone(self) -> bool:
        """True if a model estimates all times from schedules alone, without compiling kernels."""
        return self.runner.provenance is Provenance.ESTIMATED and not any(map(is_counted, self.templates))

    def close(self) -> None:
        """End every process of the backend."""
        self.runner.close()
        if self.pool is not None:
            self.pool.close()
        if self.owned is not None:
            self.owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
