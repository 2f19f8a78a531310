import json
import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from autosched.pace import Pace
from autosched.search import Sampler, sampler
from autosched.search.advised import Advised
from autosched.search.evolution import EvolutionSampler, Settings
from autosched.trial_loop import Tuner
from autosched.tune_result import Observer, Progress, Start, TuneResult
from measurements.emulator import HostFailure
from measurements.measurement import Measurement, Provenance, Status, Timing
from measurements.runners.base import Candidate, RunnerStopped
from measurements.store import Store, StoreError
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.kernel import Kernel

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
    """Smallest, 1 us, at x = 8, y = 16; the letter does not matter, and does not reach the kernel."""
    return 1e-6 * 1.3 ** (abs(math.log2(schedule.integer("x")) - 3) + abs(math.log2(schedule.integer("y")) - 4))


def generate(problem: Problem, schedule: Schedule, device: Device) -> Kernel:
    """The letter is dead code: schedules that differ in it alone give the same kernel."""
    if schedule["x"] == 2 and schedule["y"] == 32:
        raise ValueError("2 does not go with 32")
    return Kernel(entry="k", source=f"{schedule['x']} {schedule['y']}", arguments=(), grid=(1, 1, 1), block=(32, 1, 1))


class FakeRunner:
    """Times by formula, and results in reverse order of each batch; what ``fail`` names fails."""

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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "trials.db") as opened:
        yield opened


def tuned(
    store: Store,
    trials: int,
    runner: FakeRunner | None = None,
    made: Sampler | None = None,
    *,
    on: Device = H200,
    space_version: str = "s1",
    min_gain: float = 0.0,
    limit: float = math.inf,
    out: int = 4,
    pace: Pace | None = None,
    **arguments: object,
) -> TuneResult:
    parts = Tuner(
        PROBLEM,
        on,
        runner or FakeRunner(),
        store,
        made or sampler("random", SPACE, seed=1),
        seed=1,
        space_versions={"toy": space_version},
        generate=generate,
        pace=pace or Pace(compilers=out),
        **arguments,  # type: ignore[arg-type]
    )
    return parts.run(trials, limit, min_gain=min_gain)


class Fading:
    """Random schedules, of which each promises half of what the one before did."""

    name = "fading"

    def __init__(self) -> None:
        self._random = sampler("random", SPACE, seed=1)
        self.expected_gain = 1.0

    def ask(self, n: int) -> list[Schedule]:
        self.expected_gain /= 2
        return self._random.ask(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._random.tell(schedule, measurement)


class TestTheEnd:
    def test_a_search_that_promises_too_little_ends(self, store: Store) -> None:
        result = tuned(store, 30, made=Fading(), min_gain=0.1)
        assert result.satisfied and not result.exhausted
        assert 12 <= len(result.trials) < 30

    def test_by_default_it_does_not(self, store: Store) -> None:
        result = tuned(store, 30, made=Fading())
        assert len(result.trials) == 30 and not result.satisfied and not result.out_of_time

    def test_no_batch_is_proposed_once_the_time_is_up(self, store: Store) -> None:
        result = tuned(store, 30, limit=1e-9)
        assert result.out_of_time and not result.exhausted
        assert 1 <= len(result.trials) <= 4
        assert not tuned(store, 30, limit=3600.0).out_of_time


class Generations:
    """Random schedules, of which several are made at a time; notes how many it is asked for."""

    name = "generations"

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.asked: list[int] = []
        self._random = sampler("random", SPACE, seed=1)

    def ask(self, n: int) -> list[Schedule]:
        self.asked.append(n)
        return self._random.ask(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._random.tell(schedule, measurement)


@pytest.mark.parametrize(("generation", "least"), [(1, 1), (2, 2), (16, 2)])
def test_a_sampler_that_makes_several_at_a_time_is_asked_for_them(store: Store, generation: int, least: int) -> None:
    """But never for more than half of what may be out, which is four at first: the others are under way meanwhile."""
    made = Generations(generation)
    assert len(tuned(store, 40, made=Advised(made, [], "nobody"), out=8).trials) == 40
    assert made.asked[0] == 4 and sum(made.asked) == 40
    assert min(made.asked[:-1]) == least and max(made.asked) <= 8


class Shuffled:
    """A stream that gives results in a random order; ``ends`` after so many, as when the runner is closed; ``lumps`` of
    them are ready at a time."""

    def __init__(self, runner: FakeRunner, seed: int, ends: int, lumps: int) -> None:
        self._runner, self._rng = runner, np.random.default_rng(seed)
        self._left, self._lumps = ends, lumps
        self._waiting: list[tuple[int, Candidate]] = []
        self._added = 0
        self._given = 0
        self.closed = False
        self.seconds = 0.01

    def add(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            self._waiting.append((self._added, candidate))
            self._added += 1

    def ready(self) -> bool:
        return bool(self._waiting) and self._given % self._lumps != 0

    def __iter__(self) -> Iterator[tuple[int, Measurement]]:
        return self

    def __next__(self) -> tuple[int, Measurement]:
        if not self._waiting or self._left == 0:
            raise StopIteration
        self._left, self._given = self._left - 1, self._given + 1
        position, candidate = self._waiting.pop(int(self._rng.integers(len(self._waiting))))
        ((_, measurement),) = self._runner.measure([candidate])
        return position, measurement

    def close(self) -> None:
        self.closed = True


class StreamingRunner(FakeRunner):
    def __init__(self, seed: int, *, ends: int = -1, lumps: int = 1, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.streams: list[Shuffled] = []
        self._made = (seed, ends, lumps)

    def stream(self) -> Shuffled:
        self.streams.append(Shuffled(self, *self._made))
        return self.streams[-1]


class Watched:
    """A sampler, and how many of its proposals were out before and after each time it was asked."""

    name = "watched"

    def __init__(self, name: str) -> None:
        self._sampler = sampler(name, SPACE, seed=1)
        self.told = 0
        self.out = 0
        self.before: list[int] = []
        self.after: list[int] = []

    def ask(self, n: int) -> list[Schedule]:
        self.before.append(self.out)
        proposals = self._sampler.ask(n)
        self.out += len(proposals)
        self.after.append(self.out)
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self.out, self.told = self.out - 1, self.told + 1
        self._sampler.tell(schedule, measurement)


class TestStream:
    def test_without_a_gpu_nothing_depends_on_which_result_is_there_first(self, tmp_path: Path) -> None:
        """Not what is tried, not what is judged and condemned, and not which of equal times is best."""

        def verdict(problem: Problem, schedule: Schedule) -> Outcome:
            wrong = schedule["letter"] == "b" and schedule.integer("x") > 1
            return Outcome(not wrong, "wrong_result" if wrong else "ok", "it adds twice" if wrong else "")

        found, orders = [], []
        for seed in range(4):
            with Store.open(tmp_path / f"{seed}.db") as store:
                runner = StreamingRunner(seed, time_of=lambda s: 1e-6 if s.integer("x") < 16 else 2e-6)
                result = tuned(store, 40, runner, sampler("bayes", SPACE, seed=1), pace=Pace(most=8), verifier=verdict)
                assert result.best is not None and runner.streams[0].closed
                records = [(r.schedule, r.status) for r in store.trials()]
                found.append((records, result.best.schedule))
                orders.append(runner.measured)
        assert all(one == found[0] for one in found)
        assert not all(order == orders[0] for order in orders)
        assert {status for _, status in found[0][0]} >= {Status.OK, Status.WRONG_RESULT}

    def test_on_a_gpu_each_result_is_told_as_it_comes(self, store: Store) -> None:
        made = Watched("random")
        result = tuned(store, 50, StreamingRunner(3), made, out=8)
        assert len(result.trials) == 50 == made.told and made.out == 0
        assert made.before[0] == 0 and all(before >= 1 for before in made.before[1:]), "it never waits for all"
        assert max(made.after) == 8 and made.after[0] == 4, "more may be out as more is known"

    def test_all_that_is_ready_is_told_before_the_next_is_asked_for(self, store: Store) -> None:
        made = Watched("random")
        tuned(store, 50, StreamingRunner(3, lumps=4), made, out=8)
        assert made.before.count(0) > 3

    def test_a_runner_that_is_closed_in_the_middle_is_said_to_be(self, store: Store) -> None:
        for pace in (Pace(most=4), Pace(compilers=4)):
            done = store.count()
            result = tuned(store, 30, StreamingRunner(0, ends=5), pace=pace)
            assert result.stopped == "the runner was closed" and not result.exhausted
            assert 5 <= len(result.trials) == store.count() - done < 30  # some schedules share their kernels

    def test_a_sampler_that_gives_fewer_than_asked_is_asked_again(self, store: Store) -> None:
        class Sparing(Watched):
            def ask(self, n: int) -> list[Schedule]:
                return super().ask(min(n, 1))

        result = tuned(store, 20, StreamingRunner(0), Sparing("random"))
        assert len(result.trials) == 20 and not result.exhausted


class TestTrials:
    def test_every_trial_is_a_record_and_the_fastest_is_best(self, store: Store) -> None:
        result = tuned(store, 20)
        assert list(result.trials) == store.trials()
        assert len(result.trials) == 20
        times = [r.seconds for r in result.trials if r.seconds is not None]
        assert result.best is not None
        assert result.best.seconds == min(times)
        assert result.best == store.best(PROBLEM, "h200")
        assert not (result.exhausted or result.interrupted or result.stopped)

    def test_a_record_says_all_about_its_origin(self, store: Store) -> None:
        record = next(r for r in tuned(store, 8, space_version="v7").trials if r.ok)
        assert record.problem == PROBLEM
        assert (record.device, record.space_version, record.sampler, record.seed) == ("h200", "v7", "random", 1)
        assert json.loads(record.fingerprint)["device"] == "h200"
        assert (record.toolchain, record.driver) == ("tool 1", "driver 2")
        assert record.kernel_digest == generate(PROBLEM, record.schedule, H200).digest
        assert record.seconds == seconds(record.schedule)

    def test_the_number_of_trials_is_exact_whatever_the_batch(self, store: Store) -> None:
        assert len(tuned(store, 7).trials) == 7

    def test_a_record_is_stored_before_the_next_result_is_asked_for(self, store: Store) -> None:
        class Watching(FakeRunner):
            def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
                for result in super().measure(candidates):
                    before = store.count()
                    yield result
                    assert store.count() > before

        tuned(store, 12, Watching())

    def test_it_ends_when_the_space_is_exhausted(self, store: Store) -> None:
        result = tuned(store, 1000)
        assert result.exhausted
        assert len(result.trials) == TOTAL
        assert len({r.schedule.key() for r in result.trials}) == TOTAL
        again = tuned(store, 5)
        assert again.exhausted and again.trials == () and again.best == result.best

    def test_the_same_seed_tries_the_same(self, tmp_path: Path) -> None:
        tried = []
        for name in ("a", "b"):
            with Store.open(tmp_path / name) as fresh:
                tried.append([r.schedule for r in tuned(fresh, 15).trials])
        assert tried[0] == tried[1]


class TestFailures:
    def test_they_are_records_with_a_reason_and_never_best(self, store: Store) -> None:
        result = tuned(store, 30, FakeRunner(fail=lambda s: Status.TIMEOUT if s["y"] == 16 else None))
        failed = [r for r in result.trials if r.schedule["y"] == 16]
        assert failed and all(r.status is Status.TIMEOUT and r.seconds is None for r in failed)
        assert result.best is not None and result.best.schedule["y"] != 16
        assert result.failures["timeout"] == len(failed)
        assert result.ok == 30 - sum(result.failures.values())

    @pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
    def test_if_nothing_works_there_is_no_best(self, store: Store, status: Status) -> None:
        result = tuned(store, 10, FakeRunner(fail=lambda s: status))
        assert result.best is None
        assert result.ok == 0
        assert sum(result.failures.values()) == len(result.trials) == 10

    def test_a_schedule_without_a_kernel_harms_no_other(self, store: Store) -> None:
        result = tuned(store, TOTAL)
        broken = [r for r in result.trials if r.schedule["x"] == 2 and r.schedule["y"] == 32]
        assert len(broken) == 3
        for record in broken:
            assert record.status is Status.COMPILE_ERROR
            assert record.kernel_digest is None
            assert record.measurement.reason == "no kernel could be generated: 2 does not go with 32"
        assert result.failures == {"compile_error": 3}

    def test_a_time_that_is_none_is_refused_and_not_stored(self, store: Store) -> None:
        with pytest.raises(ValueError, match="positive finite"):
            tuned(store, 5, FakeRunner(time_of=lambda s: math.nan))
        assert not [r for r in store.trials() if r.ok]

    def test_a_runner_that_stops_keeps_what_it_gave(self, store: Store) -> None:
        result = tuned(store, 20, FakeRunner(raises=(6, RunnerStopped("the GPU no longer answers"))))
        assert result.stopped == "the GPU no longer answers"
        assert len(result.trials) == store.count() >= 6
        assert result.best is not None

    def test_a_database_that_refuses_ends_the_run(self, store: Store) -> None:
        class Full(Log):
            def trial(self, progress: Progress) -> None:
                store.close()

        with pytest.raises(StoreError, match="closed"):
            tuned(store, 5, observer=Full())


class TestDuplicates:
    def test_the_same_kernel_is_measured_once(self, store: Store) -> None:
        runner = FakeRunner()
        result = tuned(store, TOTAL, runner)
        kernels = {r.kernel_digest for r in result.trials if r.kernel_digest}
        assert len(runner.measured) == len(kernels) < len(result.trials)
        assert all(r.seconds == seconds(r.schedule) for r in result.trials if r.ok)

    def test_also_over_runs_with_the_same_tools(self, store: Store) -> None:
        tuned(store, 25)
        runner = FakeRunner()
        tuned(store, TOTAL - 25, runner)
        measured = {(r.schedule["x"], r.schedule["y"]) for r in store.trials()[:25]}
        assert not {(s["x"], s["y"]) for s in runner.measured} & measured

    def test_not_over_runs_with_other_tools(self, store: Store) -> None:
        tuned(store, 25)
        runner = FakeRunner(fingerprint={"device": "h200", "driver": "driver 3"})
        tuned(store, TOTAL - 25, runner)
        measured = {(r.schedule["x"], r.schedule["y"]) for r in store.trials()[:25]}
        assert {(s["x"], s["y"]) for s in runner.measured} & measured


class TestResume:
    def test_nothing_is_tried_twice(self, store: Store) -> None:
        for trials in (10, 13, 9):
            tuned(store, trials)
        keys = [r.schedule.key() for r in store.trials()]
        assert len(set(keys)) == len(keys) == 32

    def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(self, tmp_path: Path) -> None:
        def made() -> Sampler:
            return sampler("random", SPACE, seed=5)

        with Store.open(tmp_path / "whole") as whole, Store.open(tmp_path / "parts") as parts:
            tuned(whole, 32, made=made(), out=1)
            tuned(parts, 12, made=made(), out=1)
            tuned(parts, 20, made=made(), out=1)
            assert [r.schedule for r in whole.trials()] == [r.schedule for r in parts.trials()]

    def test_the_model_is_restored_with_the_records(self, store: Store) -> None:
        trained: list[int] = []

        class Flat:
            def predict(self, X: np.ndarray) -> np.ndarray:
                return np.zeros(len(X))

        def fit(rows: np.ndarray, times: np.ndarray) -> Flat:
            trained.append(len(rows))
            return Flat()

        def made() -> Sampler:
            return EvolutionSampler(SPACE, 1, fit=fit, settings=Settings(warmup=6, population=16, generations=1))

        tuned(store, 20, made=made())
        assert trained and trained[-1] >= 10, "all but the last batches have been learned from"
        trained.clear()
        tuned(store, 4, made=made())
        assert trained[0] >= 14, "the first proposals of the second run come from a model of the first run's records"

    def test_earlier_trials_are_counted_and_their_best_is_shown_first(self, store: Store) -> None:
        first = tuned(store, 20)
        log = Log()
        second = tuned(store, 3, observer=log)
        (start,) = log.starts
        assert (start.earlier, second.earlier, start.trials) == (20, 20, 3)
        assert start.best == first.best
        assert "holds 20 trials of this problem on h200 (measured); 3 more to go" in start.lines[-1]
        assert second.best is not None and first.best is not None
        assert second.best.seconds is not None and first.best.seconds is not None
        assert second.best.seconds <= first.best.seconds

    @pytest.mark.parametrize("other", ["device", "provenance", "space", "template"])
    def test_trials_of_another_kind_are_neither_told_nor_ranked(self, store: Store, other: str) -> None:
        fast = FakeRunner(time_of=lambda s: seconds(s) / 100)
        if other == "device":
            tuned(store, 30, fast, on=A100)
        elif other == "provenance":
            tuned(store, 30, FakeRunner(Provenance.ESTIMATED, time_of=lambda s: seconds(s) / 100))
        elif other == "space":
            tuned(store, 30, space_version="older")
        else:
            tuned(store, 30, versions={"toy": "other code"})
        tried_before = {r.schedule.key() for r in store.trials()}
        result = tuned(store, TOTAL)
        assert tried_before <= {r.schedule.key() for r in result.trials}, "they are tried again here"
        if other in ("device", "provenance"):
            assert result.earlier == 0
            assert result.best is not None and result.best.seconds == pytest.approx(1e-6)
            assert result.best.device == "h200" and result.best.provenance is Provenance.MEASURED


class TestProof:
    """New bests are judged before they are called best."""

    def test_a_wrong_kernel_is_recorded_as_wrong_and_is_not_best(self, store: Store) -> None:
        judged: list[Schedule] = []

        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            judged.append(schedule)
            return Outcome(False, "wrong_result", "17 elements differ", 300.0) if schedule["x"] == 8 else Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        wrong = [r for r in result.trials if r.status is Status.WRONG_RESULT]
        assert wrong and all(r.schedule["x"] == 8 for r in wrong)
        assert wrong[0].measurement.reason == "emulated: wrong_result: 17 elements differ"
        assert wrong[0].measurement.error == 300.0
        assert result.best is not None and result.best.schedule["x"] != 8
        assert store.best(PROBLEM, "h200") == result.best
        assert result.best.measurement.error == 0.5, "the best is proven, and its error is stored"

    def test_only_new_bests_are_judged(self, store: Store) -> None:
        judged: list[Schedule] = []

        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            judged.append(schedule)
            return Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        times = [seconds(s) for s in judged]
        assert times == sorted(times, reverse=True)
        assert len(judged) < len(result.trials) / 2

    def test_if_all_are_wrong_there_is_no_best(self, store: Store) -> None:
        result = tuned(
            store, 12, FakeRunner(Provenance.ESTIMATED), verifier=lambda p, s: Outcome(False, "timeout", "60 s")
        )
        assert result.best is None
        assert result.ok == 0

    def test_an_unproven_best_of_an_earlier_run_is_judged_first(self, store: Store) -> None:
        unproven = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))
        assert unproven.best is not None
        fastest = unproven.best.schedule
        result = tuned(
            store,
            1,
            FakeRunner(Provenance.ESTIMATED, fail=lambda s: Status.CRASHED),
            verifier=lambda p, s: Outcome(s["x"] != fastest["x"], "findings", "a race"),
        )
        assert result.best is not None and result.best.schedule["x"] != fastest["x"]
        assert store.best(PROBLEM, "h200") == result.best
        assert len(result.trials) == 1, "what was judged again is no trial of this run"

    def test_a_schedule_that_breaks_a_law_of_today_is_no_proof(self, store: Store) -> None:
        tuned(store, 4, FakeRunner(Provenance.ESTIMATED))

        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            raise ValueError("tile_m must divide 7")

        result = tuned(store, 1, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert result.best is None
        assert any(r.measurement.reason == "emulated: tile_m must divide 7" for r in store.trials())

    @pytest.mark.parametrize("status", ["timeout", "compile_error"])
    def test_without_a_verdict_a_schedule_is_neither_best_nor_wrong(self, store: Store, status: str) -> None:
        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            return Outcome(False, status, "60 s", None) if schedule["x"] == 8 else Outcome(True)

        first = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        unproven = [r for r in first.trials if r.status is Status.UNPROVEN]
        assert unproven and all(r.schedule["x"] == 8 for r in unproven)
        assert unproven[0].measurement.reason == f"emulated: {status}: 60 s"
        assert first.best is not None and first.best.schedule["x"] != 8
        assert not any(r.status is Status.WRONG_RESULT for r in store.trials())

        runner = FakeRunner(Provenance.ESTIMATED)
        again = tuned(store, TOTAL, runner, verifier=lambda p, s: Outcome(True))
        assert {s.key() for s in runner.measured} <= {r.schedule.key() for r in unproven}, "they are tried again"
        assert again.best is not None and again.best.schedule["x"] == 8
        assert store.best(PROBLEM, "h200") == again.best

    def test_an_earlier_best_without_a_verdict_is_not_best_until_it_has_one(self, store: Store) -> None:
        unproven = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))
        assert unproven.best is not None
        fastest = unproven.best.schedule
        arguments = {"runner": FakeRunner(Provenance.ESTIMATED, fail=lambda s: Status.CRASHED)}
        late = tuned(store, 1, verifier=lambda p, s: Outcome(s["x"] != fastest["x"], "timeout", "60 s"), **arguments)
        assert late.best is not None and late.best.schedule["x"] != fastest["x"]
        assert store.best(PROBLEM, "h200") == late.best

    def test_a_failure_of_this_machine_stops_the_tune_and_condemns_nothing(self, store: Store) -> None:
        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            if schedule["x"] == 8:
                raise HostFailure("g++ cannot compile: repair it")
            return Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert result.stopped == "a new best cannot be proven: g++ cannot compile: repair it; or give --no-verify"
        assert store.trials() == list(result.trials)
        assert not any(r.status in (Status.WRONG_RESULT, Status.UNPROVEN) for r in result.trials)
        assert result.best == store.best(PROBLEM, "h200")
        whole = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=lambda p, s: Outcome(True))
        assert whole.best is not None and whole.best.schedule["x"] == 8

    def test_a_failure_of_this_machine_at_the_start_is_no_verdict_on_what_was_stored(self, store: Store) -> None:
        before = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))

        def verifier(problem: Problem, schedule: Schedule) -> Outcome:
            raise HostFailure("the disk is full: make room")

        result = tuned(store, 5, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert "the disk is full" in result.stopped and result.trials == ()
        assert store.count() == 20 and store.best(PROBLEM, "h200") == before.best


class TestInterruption:
    def test_ctrl_c_keeps_everything_and_ends_cleanly(self, store: Store) -> None:
        runner = FakeRunner(raises=(9, KeyboardInterrupt()))
        result = tuned(store, 20, runner)
        assert result.interrupted
        assert list(result.trials) == store.trials()
        assert len(result.trials) >= 9
        assert result.best == store.best(PROBLEM, "h200")
        assert runner.abandoned == 1, "the runner has been told to stop"

    def test_ctrl_c_while_the_observer_shows_a_trial(self, store: Store) -> None:
        class Impatient(Log):
            def trial(self, progress: Progress) -> None:
                super().trial(progress)
                if progress.done == 3:
                    raise KeyboardInterrupt

        result = tuned(store, 20, observer=Impatient())
        assert result.interrupted and len(result.trials) == store.count() == 3

    def test_the_next_run_goes_on(self, store: Store) -> None:
        tuned(store, 20, FakeRunner(raises=(9, KeyboardInterrupt())))
        kept = store.count()
        result = tuned(store, 5)
        assert (result.earlier, store.count()) == (kept, kept + 5)


class TestObserver:
    def test_it_sees_every_trial_and_the_best_so_far(self, store: Store) -> None:
        log = Log()
        result = tuned(store, 15, FakeRunner(fail=lambda s: Status.CRASHED if s["x"] == 1 else None), observer=log)
        assert [p.record for p in log.steps] == list(result.trials)
        assert [p.done for p in log.steps] == list(range(1, 16))
        fastest: float | None = None
        for step in log.steps:
            if step.record.seconds is not None:
                fastest = min(step.record.seconds, fastest or math.inf)
            assert (step.best.seconds if step.best else None) == fastest
        assert log.steps[-1].failures == result.failures
        assert log.steps[-1].seconds_left == 0
        assert log.steps[4].seconds_left == pytest.approx(10 / log.steps[4].rate)

    def test_the_first_lines_say_what_is_there(self, store: Store) -> None:
        log = Log()
        result = tuned(store, 1, lines=("backend fake, because",), observer=log)
        assert log.starts[0].lines == result.lines
        assert result.lines[0] == "backend fake, because"
        assert "holds 0 trials of this problem on h200 (measured); 1 more to go" in result.lines[1]


KILLED = """
import sys, time
sys.path[:0] = PATHS
import test_tuner as t
from autosched.search import sampler
from measurements.store import Store
class Slow(t.FakeRunner):
    def measure(self, candidates):
        for result in super().measure(candidates):
            time.sleep(0.003)
            yield result
            print(result[0], flush=True)  # the trial has been stored when the next one is asked for
space = t.Space("toy", (t.ordinal("x", tuple(range(1, 200))), t.ordinal("y", tuple(range(1, 200)))), (), ())
def generate(problem, schedule, device):
    return t.Kernel(entry="k", source=schedule.key(), arguments=(), grid=(1, 1, 1), block=(32, 1, 1))
store = Store.open(sys.argv[1])
print("ready", flush=True)
made = sampler("random", space, seed=1)
t.Tuner(t.PROBLEM, t.H200, Slow(), store, made, seed=1, space_versions={"toy": "s"}, generate=generate,
        pace=t.Pace(compilers=4)).run(10**6)
"""


class TestKilled:
    def test_a_killed_tune_loses_the_trial_in_flight_at_most_and_goes_on(self, tmp_path: Path) -> None:
        path, random = tmp_path / "a.db", np.random.default_rng(3)
        paths = [str(Path(__file__).parent), *(p for p in sys.path if p)]
        code = KILLED.replace("PATHS", json.dumps(paths))
        acknowledged = 0
        for attempt in range(4):
            tuning = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
            assert tuning.stdout is not None
            assert tuning.stdout.readline() == "ready\n"
            tuning.stdout.readline()
            time.sleep(float(random.random()) * 0.2)
            tuning.send_signal(signal.SIGKILL)
            acknowledged += 1 + tuning.stdout.read().count("\n")
            tuning.wait()
            tuning.stdout.close()
            stored = Store.open(path, create=False).trials()
            keys = [r.schedule.key() for r in stored]
            assert len(set(keys)) == len(keys), "nothing is tried twice"
            assert acknowledged <= len(stored) <= acknowledged + attempt + 1
            with closing(sqlite3.connect(path)) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
