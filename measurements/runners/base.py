"""Interface of all backends, which return one measurement per candidate in order of completion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, why_not_launched
from measurements.trials.measurement import Measurement, Provenance, Status
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """One schedule of one problem, and the kernel generated for it."""

    problem: Problem
    schedule: Schedule
    kernel: GeneratedKernel


@dataclass(frozen=True)
class Entrant:
    """One entrant of a comparison, with its time in each round, or the reason why it was not timed.

    ``label`` is its name. ``error`` is the largest ratio of an error to its tolerance. ``clock_mhz`` is the GPU's clock
    after the last round. ``version`` is that of the vendor's library, "" for all others.
    """

    label: str
    status: Status
    reason: str
    seconds: tuple[float, ...]
    error: float | None = None
    clock_mhz: float | None = None
    version: str = ""


class RunnerStopped(RuntimeError):
    """The backend cannot continue, for example because a GPU no longer responds. Earlier results are valid."""


class Runner(Protocol):
    """Protocol of a backend. One test class checks it for every backend.

    ``measure`` yields exactly one (position, measurement) per candidate, in order of completion. A failure of a
    candidate (a compile error, hang, crash or wrong result) is a status of its own measurement and does not affect
    others. The result of a candidate does not depend on its position in the sequence, with one exception: a candidate
    that is far slower than its predecessors is timed fewer times. Leaving the iteration early cancels pending
    candidates, and ``close`` from another thread ends the iteration. It only raises RunnerStopped and errors of this
    machine, such as a full disk.
    """

    @property
    def name(self) -> str:
        """Name of the backend on the command line."""

    @property
    def provenance(self) -> Provenance:
        """Source of the times."""

    def describe(self) -> str:
        """Return one line on the backend, its device, and the meaning of its times."""

    def fingerprint(self) -> dict[str, str]:
        """Return everything except the kernel that affects times: device, driver, toolchain, model.

        It is stored with every trial.
        """

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Yield (position, measurement) of each candidate, once."""

    def close(self) -> None:
        """End every process that the runner started. Safe to call twice."""


class Stream(Protocol):
    """Candidates in flight.

    Iteration yields one (position, measurement) per candidate, in order of completion, until none remains.

    Candidates may be added at any time; positions continue. Candidates do not affect each other, as in
    ``Runner.measure``. ``seconds`` is how long the GPU, or its replacement, was busy with the last result, without
    compilation.
    """

    seconds: float

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Queue candidates after those added earlier, without waiting."""

    def ready(self) -> bool:
        """True if the next result is available without waiting."""

    def __iter__(self) -> Iterator[tuple[int, Measurement]]: ...

    def __next__(self) -> tuple[int, Measurement]: ...

    def close(self) -> None:
        """Cancel pending candidates. Safe to call twice."""


@runtime_checkable
class Streaming(Protocol):
    """A runner that accepts more candidates during measurements."""

    def stream(self) -> Stream:
        """Return an empty stream."""


@runtime_checkable
class Comparing(Protocol):
    """A runner that can also time candidates alternately."""

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        others: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        """Time candidates alternately, in rounds.

        Args:
            candidates: At least one, of one problem.
            rounds: Number of times that each is timed.
            library: If True, the vendor's library takes part.
            others: Names of further baselines.
            seed: Seed of the inputs and the order in each round; None for the runner's.

        Returns:
            An entrant for each candidate, for the vendor's library if requested, and for each of ``others``.

        Raises:
            ValueError: No candidates, several problems, less than one round, or unknown names.
            RunnerStopped: The GPU can no longer be used.
        """


def runnable(
    candidate: Candidate, result: Compiled | CompileFailure, device: Device, provenance: Provenance
) -> Compiled | Measurement:
    """Return the compiled kernel if ``device`` can launch it; otherwise a measurement with the reason.

    Args:
        candidate: Candidate with the launch.
        result: Result of the compiler.
        device: The GPU.
        provenance: Provenance of the measurement.

    Returns:
        The compiled kernel, or the measurement.
    """
    if isinstance(result, CompileFailure):
        return Measurement(result.status, provenance, result.reason)
    reason = why_not_launched(candidate.kernel, result, device)
    if reason is None:
        return result
    return Measurement(
        Status.OUT_OF_RESOURCES,
        provenance,
        reason,
        resources=result.resources,
        compile_seconds=result.compile_seconds,
        code=result.code,
    )
