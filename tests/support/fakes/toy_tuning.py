"""A small space, fake runners that measure its schedules, and a ``Tuner`` that uses both."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.samplers import Sampler, sampler
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import RunIdentity, Verifier
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from autosched.tuning.result import Observer, Progress, Start, TuneResult
from autosched.tuning.winner.winner_verification import Verifiers
from measurements.runners.base import Candidate
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

H200, A100 = device("h200"), device("a100")
PROBLEM = Matmul(m=64, n=48, k=32)
SPACE = Space(
    "toy",
    (ordinal("x", (1, 2, 4, 8, 16, 32)), ordinal("y", (1, 2, 4, 8, 16, 32)), categorical("letter", ("a", "b", "c"))),
    (),
    (Rule("order", lambda x, y: x <= y, "{x} is more than {y}"),),
)
TOTAL = SPACE.count()


def seconds(schedule: Schedule) -> float:
    """Return the time of a schedule. The smallest time is 1 us, at x = 8 and y = 16. ``letter`` has no effect."""
    return 1e-6 * 1.3 ** (abs(math.log2(schedule.integer("x")) - 3) + abs(math.log2(schedule.integer("y")) - 4))


def generate(problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
    """Generate a kernel. Schedules that differ only in the parameter ``letter`` share a kernel."""
    if schedule["x"] == 2 and schedule["y"] == 32:
        raise ValueError("2 does not go with 32")
    return GeneratedKernel(
        entry="k", source=f"{schedule['x']} {schedule['y']}", arguments=(), grid=(1, 1, 1), block=(32, 1, 1)
    )


class FakeRunner:
    """A runner that computes times by a formula and returns the results of each batch in reverse order.

    ``fail(schedule)`` returns the status with which the schedule fails, or None if it succeeds.
    """

    name = "fake"

    def __init__(
        self,
        provenance: Provenance = Provenance.MEASURED,
        *,
        time_of: Callable[[Schedule], float] = seconds,
        fail: Callable[[Schedule], Status | None] = lambda s: None,
        raises: tuple[int, BaseException] | None = None,
        fingerprint: dict[str, str] | None = None,
    ) -> None:
        self.provenance = provenance
        self.measured: list[Schedule] = []
        self.abandoned = 0
        self._time_of, self._fail, self._raises = time_of, fail, raises
        self._fingerprint = fingerprint or {"device": "h200", "toolchain": "tool 1", "driver": "driver 2"}

    def describe(self) -> str:
        return "backend fake: times by formula"

    def fingerprint(self) -> dict[str, str]:
        return self._fingerprint

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        finished = False
        try:
            for position in reversed(range(len(candidates))):
                if self._raises is not None and len(self.measured) == self._raises[0]:
                    raise self._raises[1]
                schedule = candidates[position].schedule
                self.measured.append(schedule)
                status = self._fail(schedule)
                if status is not None:
                    yield position, Measurement(status, self.provenance, f"it is {status}")
                else:
                    time = self._time_of(schedule)
                    yield position, Measurement(Status.OK, self.provenance, timing=Timing(time, time, time * 1.1, 9))
            finished = True
        finally:
            self.abandoned += not finished

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Outcome:
    ok: bool
    status: str = "ok"
    reason: str = ""
    worst: float | None = 0.5


class Log(Observer):
    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.steps: list[Progress] = []

    def started(self, start: Start) -> None:
        self.starts.append(start)

    def trial(self, progress: Progress) -> None:
        self.steps.append(progress)


def tuned(
    store: Store,
    trials: int,
    runner: FakeRunner | None = None,
    searcher: Sampler | None = None,
    *,
    on: Device = H200,
    space_version: str = "s1",
    versions: Mapping[str, str] | None = None,
    min_gain: float = 0.0,
    limit: float = math.inf,
    out: int = 4,
    in_flight: InFlightLimit | None = None,
    verifier: Verifier | None = None,
    **arguments: Any,
) -> TuneResult:
    runner = runner or FakeRunner()
    tuner = Tuner(
        TunerParts(
            RunIdentity(PROBLEM, on, runner.provenance, None, 1, versions or {}, {"toy": space_version}),
            runner,
            store,
            searcher or sampler("random", SPACE, seed=1),
            generate=generate,
            in_flight=in_flight or InFlightLimit(compilers=out),
            verifiers=Verifiers(verifier),
            **arguments,
        )
    )
    return tuner.run(SearchPlan(trials=trials, seconds=limit, min_gain=min_gain))
