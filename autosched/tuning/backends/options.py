"""Options of a backend, which compiles and times candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autosched.tuning.backends.backend import BackendError
from measurements.runners.cuda.runner import CudaOptions
from measurements.runners.fleet.cluster import Fleet
from measurements.trials.policy import Policy
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import whole_number
from search_spaces.templates.template import KernelTemplate

BACKENDS = ("auto", "cuda", "estimate", "ray", "replay")

Gpus = Sequence[int] | Literal["all"]  # CUDA device numbers, or all GPUs of this machine


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options of a backend.

    Attributes:
        device: GPU to tune for, a name or a Device. Default: this machine's GPU, or h200 if this machine has no GPU.
        backend: Source of the times: "auto", "cuda", "estimate", "ray" or "replay".
        workers: Number of compilers. Default: one per core.
        warm_cache: If True, operands are in the L2 cache instead of memory. ``warm_cache``, ``eager`` and ``clocks``
            form the timing policy. Only trials with the same policy are ranked together.
        eager: If True, the host queues each launch separately. Default: launches are captured in a CUDA graph.
        clocks: SM clock in MHz if the clock is locked, which is verified; None if unlocked.
        gpus: GPUs to measure on: CUDA device numbers, or "all". The GPUs must be of one model. Default: only GPU 0,
            because other users of a shared machine may use further GPUs.
        ray: Address of a Ray cluster ("auto": the cluster of this machine), or a Fleet, which the caller must close.
            Candidates are measured on all GPUs of the cluster whose model is ``device``.
        templates: Kernel templates to search, or their names. Default: all that can compute the problem.
        recording: File with times for the backend "replay": a cache or results (T4 format) of Kernel Tuner, or a
            recording or database of autosched.

    Raises:
        ValueError: An option is invalid. Most exceptions are of the subclass BackendError.
    """

    device: str | Device | None = None
    backend: str = "auto"
    workers: int | None = None
    warm_cache: bool = False
    eager: bool = False
    clocks: int | None = None
    gpus: Gpus | None = None
    ray: str | Fleet | None = None
    templates: Iterable[str | KernelTemplate] | None = None
    recording: str | Path | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise BackendError(f"unknown backend {self.backend!r}: use one of {', '.join(BACKENDS)}")
        if self.workers is not None:
            object.__setattr__(self, "workers", whole_number("workers", self.workers, 1))
        object.__setattr__(self, "gpus", _checked_numbers(self.gpus))
        if self.recording is not None and self.backend != "replay":
            raise BackendError("a recording is given, but the backend is not replay: add --backend replay")
        if self.on_cluster and (self.backend not in ("auto", "ray") or self.gpus is not None):
            raise BackendError(
                "--backend and --gpus do not apply to a Ray cluster, where all GPUs of one model are used: omit them"
            )
        _ = self.policy  # raises ValueError if the policy is invalid

    @property
    def on_cluster(self) -> bool:
        """True if candidates are measured on a Ray cluster."""
        return self.recording is None and (self.ray is not None or self.backend == "ray")

    @property
    def policy(self) -> Policy:
        """Timing policy."""
        return Policy("warm" if self.warm_cache else "cold", "eager" if self.eager else "graph", self.clocks)

    @property
    def power(self) -> bool:
        """True if power is measured, too."""
        return False

    @property
    def timing(self) -> CudaOptions:
        """Timing options for a local GPU."""
        return CudaOptions(policy=self.policy, power=self.power)


def _checked_numbers(gpus: Gpus | None) -> Gpus | None:
    """Return the numbers as integers. Raises BackendError, a ValueError, for anything but "all" or numbers."""
    if gpus is None or gpus == "all":
        return gpus
    if isinstance(gpus, str) or not isinstance(gpus, Sequence):
        raise BackendError(f'gpus must be "all" or a list of numbers, such as [0, 1], got {gpus!r}')
    numbers = [whole_number("gpus", gpu, 0) for gpu in gpus]
    if not numbers or len(set(numbers)) < len(numbers):
        named = ", ".join(map(str, numbers)) or "none"
        raise BackendError(f"gpus must contain at least one GPU and no GPU twice, got {named}")
    return numbers
