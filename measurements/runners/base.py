"""Interface of all backends. A backend returns one measurement per candidate, in order of completion."""

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
    """One kernel or library in a comparison, with its time in each round, or the reason why it was not timed.

    ``label`` names the entrant. ``error`` is the largest ratio of an error to its tolerance. ``clock_mhz`` is the GPU's
    clock after the last round. ``version`` is the version of the vendor's library; "" for other entrants.
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
    candidate (a compile error, hang, crash or wrong result) is the status of that candidate's measurement and does not
    affect other candidates. The result of a candidate does not depend on its position in the sequence, with one
    exception: a candidate that is far slower than its predecessors is timed fewer times. Leaving the iteration early
    cancels pending candidates, and ``close`` from another thread ends the iteration. The iteration raises only
    RunnerStopped and errors of this machine, such as a full disk.
    """

    @property
    def name(self) -> str:
        """Name of the backend on the command line."""

    @property
    def provenance(self) -> Provenance:
        """Provenance of the times."""

    def describe(self) -> str:
        """Describe the backend, its device, and the meaning of its times, in one line."""

    def fingerprint(self) -> dict[str, str]:
        """Return everything that affects times, except the kernel: device, driver, toolchain, time model.

        The fingerprint is stored with every trial.
        """

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """Yield one (position, measurement) per candidate. Positions are indices into ``candidates``."""

    def close(self) -> None:
        """End every process that the runner started. Safe to call twice."""


class Stream(Protocol):
    """Candidates in flight.

    Iteration yields one (position, measurement) per candidate, in order of completion, until none remains.

    Candidates may be added at any time; positions continue from the last earlier candidate. Candidates do not affect
    each other, as in ``Runner.measure``. ``seconds`` is the time for which the backend was busy with the last result,
    excluding compilation.
    """

    seconds: float

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Queue candidates after all earlier candidates, without waiting."""

    def ready(self) -> bool:
        """True if the next result is available without waiting."""

    def __iter__(self) -> Iterator[tuple[int, Measurement]]: ...

    def __next__(self) -> tuple[int, Measurement]: ...

    def close(self) -> None:
        """Cancel pending candidates. Safe to call twice."""


@runtime_checkable
class Streaming(Protocol):
    """A runner that accepts further candidates while it measures."""

    def stream(self) -> Stream:
        """Return an empty stream, to which candidates can be added."""


@runtime_checkable
class Comparing(Protocol):
    """A runner that can also compare candidates, by timing them in alternation."""

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        """Time candidates in alternation, in several rounds.

        Args:
            candidates: One or more candidates of the same problem.
            rounds: Number of times that each candidate is timed.
            library: If True, the vendor's library is also timed.
            other_baselines: Names of further baselines.
            seed: Seed of the inputs and of the order in each round; None for the runner's seed.

        Returns:
            An entrant for each candidate, for the vendor's library if requested, and for each of ``other_baselines``.

        Raises:
            ValueError: There are no candidates, or candidates of several problems; or ``rounds`` is below 1, or a name
                in ``other_baselines`` is unknown.
            RunnerStopped: The GPU can no longer be used.
        """


def runnable(
    candidate: Candidate, result: Compiled | CompileFailure, device: Device, provenance: Provenance
) -> Compiled | Measurement:
    """Return the compiled kernel if ``device`` can launch it; otherwise a failed measurement with the reason.

    Args:
        candidate: Candidate with the launch.
        result: The compiler's result for this candidate.
        device: The GPU.
        provenance: Provenance of the measurement.

    Returns: The compiled kernel, or the failed measurement.
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
