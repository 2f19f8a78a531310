"""What every backend offers: candidates in, one measurement out for each, in order of completion."""

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
    """One entrant of a comparison: its time in each round, or why it has none. ``label`` names it.

    ``error`` is its largest error over its tolerance; ``clock_mhz`` the GPU's clock after the last round; ``version``
    that of the vendor's library, "" for all others.
    """

    label: str
    status: Status
    reason: str
    seconds: tuple[float, ...]
    error: float | None = None
    clock_mhz: float | None = None
    version: str = ""


class RunnerStopped(RuntimeError):
    """The backend cannot go on (a GPU no longer answers). Results already given stand; the message is one line."""


class Runner(Protocol):
    """The contract, which one test class checks for every backend.

    ``measure`` gives exactly one (position, measurement) for each candidate, as they are done. Whatever a candidate
    does (not compiling, hanging, crashing its process, wrong numbers) is a status of its own measurement and touches no
    other. The result of a candidate does not depend on its place in the sequence, except that one far slower than those
    before it is repeated less often. Leaving the iteration early cancels what has not begun; ``close`` from another
    thread ends it early. Only RunnerStopped, and errors of this machine such as a full disk, are raised.
    """

    @property
    def name(self) -> str:
        """The backend's name on the command line."""

    @property
    def provenance(self) -> Provenance:
        """Where the times come from."""

    def describe(self) -> str:
        """One line for people: which backend, on what, and what its times mean."""

    def fingerprint(self) -> dict[str, str]:
        """Return what times may depend on besides the kernel: device, driver, toolchain, model. Stored with every
        trial."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """(position, measurement) of each candidate, once."""

    def close(self) -> None:
        """End every process that the runner started. Safe to call twice."""


class Stream(Protocol):
    """Candidates under way: iterating gives (position, measurement) of each, once, as they are done, and ends when none
    is left. More may be added at any time; positions count on.

    What a candidate does touches no other, as with ``Runner.measure``. ``seconds`` is how long the GPU, or what stands
    for it, was busy with the last result; compiling does not count.
    """

    seconds: float

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Start on candidates, after those that were added before. Does not wait."""

    def ready(self) -> bool:
        """Whether a result is there, so that the next one does not wait."""

    def __iter__(self) -> Iterator[tuple[int, Measurement]]: ...

    def __next__(self) -> tuple[int, Measurement]: ...

    def close(self) -> None:
        """Cancel what has not begun. Safe to call twice."""


@runtime_checkable
class Streaming(Protocol):
    """A runner that takes more candidates while it measures others."""

    def stream(self) -> Stream:
        """Return an empty one."""


@runtime_checkable
class Comparing(Protocol):
    """A runner that can also time candidates in turns."""

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        others: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        """Return an entrant for each candidate, one for the vendor's library if wanted, and one for each of
        ``others``.

        Args:
            candidates: At least one, of one problem.
            rounds: How often each is timed, in turns.
            library: Whether the vendor's library takes part.
            others: Names of further baselines.
            seed: Of the inputs and the order in each round; None for the runner's.

        Raises:
            ValueError: No candidates, several problems, less than one round, or unknown names.
            RunnerStopped: The GPU cannot be used any more.
        """


def runnable(
    candidate: Candidate, result: Compiled | CompileFailure, device: Device, provenance: Provenance
) -> Compiled | Measurement:
    """Return what was compiled, if ``device`` can launch it; otherwise the measurement that says why not.

    Args:
        candidate: Has the launch.
        result: What the compiler made of it.
        device: The GPU.
        provenance: Of the measurement.
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
