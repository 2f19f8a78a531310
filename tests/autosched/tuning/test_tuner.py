import json
import math
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import forked_python
import numpy as np
import pytest
from toy_tuning import A100, H200, PROBLEM, SPACE, TOTAL, FakeRunner, Log, Outcome, generate, seconds, tuned

from autosched.samplers import Sampler, sampler
from autosched.samplers.evolution import EvolutionSampler, EvolutionSettings
from autosched.tuning.result import Progress
from measurements.emulator import HostFailure
from measurements.runners.base import Candidate, RunnerStopped
from measurements.store.store import Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Status
from search_spaces.spaces.schedule import Schedule


class Fading(Sampler):
    """Sampler that proposes random schedules. Its expected gain halves with each request."""

    name = "fading"
    expected_gain = 1.0

    def __init__(self) -> None:
        self._random = sampler("random", SPACE, seed=1)

    def ask(self, n: int) -> list[Schedule]:
        self.expected_gain /= 2
        return self._random.ask(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._random.tell(schedule, measurement)


class Listening(Sampler):
    """Sampler of random schedules that records the results reported before the first request."""

    name = "listening"

    def __init__(self) -> None:
        self._random = sampler("random", SPACE, seed=1)
        self.restored: list[tuple[Schedule, Status]] = []
        self._requested = False

    def ask(self, n: int) -> list[Schedule]:
        self._requested = True
        return self._random.ask(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        if not self._requested:
            self.restored.append((schedule, measurement.status))
        self._random.tell(schedule, measurement)


class TestTheEnd:
    def test_a_search_with_too_little_expected_gain_ends(self, store: Store) -> None:
        result = tuned(store, 30, searcher=Fading(), min_gain=0.1)
        assert result.satisfied and not result.exhausted
        assert 12 <= len(result.trials) < 30

    def test_without_a_minimum_gain_the_search_does_not_end_early(self, store: Store) -> None:
        result = tuned(store, 30, searcher=Fading())
        assert len(result.trials) == 30 and not result.satisfied and not result.out_of_time

    def test_no_batch_is_proposed_once_the_time_is_up(self, store: Store) -> None:
        result = tuned(store, 30, limit=1e-9)
        assert result.out_of_time and not result.exhausted
        assert 1 <= len(result.trials) <= 4
        assert not tuned(store, 30, limit=3600.0).out_of_time


class TestTrials:
    def test_every_trial_is_stored_and_the_fastest_is_best(self, store: Store) -> None:
        result = tuned(store, 20)
        assert list(result.trials) == store.trials()
        assert len(result.trials) == 20
        times = [r.seconds for r in result.trials if r.seconds is not None]
        assert result.best is not None
        assert result.best.seconds == min(times)
        assert result.best == store.best(PROBLEM, "h200")
        assert not (result.exhausted or result.interrupted or result.stopped)

    def test_a_trial_records_its_origin(self, store: Store) -> None:
        trial = next(r for r in tuned(store, 8, space_version="v7").trials if r.ok)
        assert trial.problem == PROBLEM
        assert (trial.device, trial.space_version, trial.sampler, trial.seed) == ("h200", "v7", "random", 1)
        assert json.loads(trial.fingerprint)["device"] == "h200"
        assert (trial.toolchain, trial.driver) == ("tool 1", "driver 2")
        assert trial.kernel_digest == generate(PROBLEM, trial.schedule, H200).digest
        assert trial.seconds == seconds(trial.schedule)

    def test_the_number_of_trials_is_exact_for_any_batch_size(self, store: Store) -> None:
        assert len(tuned(store, 7).trials) == 7

    def test_a_trial_is_stored_before_the_next_result_is_fetched(self, store: Store) -> None:
        class Watching(FakeRunner):
            def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
                for result in super().measure(candidates):
                    before = store.count()
                    yield result
                    assert store.count() > before

        tuned(store, 12, Watching())

    def test_the_search_ends_when_the_space_is_exhausted(self, store: Store) -> None:
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
    def test_failures_are_trials_with_a_reason_and_never_best(self, store: Store) -> None:
        result = tuned(store, 30, FakeRunner(fail=lambda s: Status.TIMEOUT if s["y"] == 16 else None))
        failed = [r for r in result.trials if r.schedule["y"] == 16]
        assert failed and all(r.status is Status.TIMEOUT and r.seconds is None for r in failed)
        assert result.best is not None and result.best.schedule["y"] != 16
        assert result.failures["timeout"] == len(failed)
        assert result.ok == 30 - sum(result.failures.values())

    @pytest.mark.parametrize("status", [s for s in Status if s is not Status.OK])
    def test_there_is_no_best_if_all_trials_fail(self, store: Store, status: Status) -> None:
        result = tuned(store, 10, FakeRunner(fail=lambda s: status))
        assert result.best is None
        assert result.ok == 0
        assert sum(result.failures.values()) == len(result.trials) <= 10

    def test_a_schedule_without_a_kernel_does_not_affect_others(self, store: Store) -> None:
        result = tuned(store, TOTAL)
        broken = [r for r in result.trials if r.schedule["x"] == 2 and r.schedule["y"] == 32]
        assert len(broken) == 3
        for trial in broken:
            assert trial.status is Status.COMPILE_ERROR
            assert trial.kernel_digest is None
            assert trial.measurement.reason == "no kernel could be generated: 2 does not go with 32"
        assert result.failures == {"compile_error": 3}

    def test_an_invalid_time_is_rejected_and_not_stored(self, store: Store) -> None:
        with pytest.raises(ValueError, match="positive finite"):
            tuned(store, 5, FakeRunner(time_of=lambda s: math.nan))
        assert not [r for r in store.trials() if r.ok]

    def test_results_before_a_runner_stopped_are_kept(self, store: Store) -> None:
        result = tuned(store, 20, FakeRunner(raises=(6, RunnerStopped("the GPU no longer answers"))))
        assert result.stopped == "the GPU no longer answers"
        assert len(result.trials) == store.count() >= 6
        assert result.best is not None

    def test_a_database_that_rejects_ends_the_run(self, store: Store) -> None:
        class Full(Log):
            def trial(self, progress: Progress) -> None:
                store.close()

        with pytest.raises(StoreError, match="closed"):
            tuned(store, 5, observer=Full())


class TestDuplicates:
    def test_equal_kernels_are_measured_once(self, store: Store) -> None:
        runner = FakeRunner()
        result = tuned(store, TOTAL, runner)
        kernels = {r.kernel_digest for r in result.trials if r.kernel_digest}
        assert len(runner.measured) == len(kernels) < len(result.trials)
        assert all(r.seconds == seconds(r.schedule) for r in result.trials if r.ok)

    def test_equal_kernels_are_measured_once_across_runs_with_equal_tools(self, store: Store) -> None:
        tuned(store, 25)
        runner = FakeRunner()
        tuned(store, TOTAL - 25, runner)
        measured = {(r.schedule["x"], r.schedule["y"]) for r in store.trials()[:25]}
        assert not {(s["x"], s["y"]) for s in runner.measured} & measured

    def test_equal_kernels_are_measured_again_with_other_tools(self, store: Store) -> None:
        tuned(store, 25)
        runner = FakeRunner(fingerprint={"device": "h200", "driver": "driver 3"})
        tuned(store, TOTAL - 25, runner)
        measured = {(r.schedule["x"], r.schedule["y"]) for r in store.trials()[:25]}
        assert {(s["x"], s["y"]) for s in runner.measured} & measured


class TestResume:
    def test_no_schedule_is_tried_twice(self, store: Store) -> None:
        for trials in (10, 13, 9):
            tuned(store, trials)
        keys = [r.schedule.key() for r in store.trials()]
        assert len(set(keys)) == len(keys) == 32

    def test_a_stopped_run_resumes_identically(self, tmp_path: Path) -> None:
        def new_sampler() -> Sampler:
            return sampler("random", SPACE, seed=5)

        with Store.open(tmp_path / "whole") as uninterrupted, Store.open(tmp_path / "parts") as parts:
            tuned(uninterrupted, 32, searcher=new_sampler(), out=1)
            tuned(parts, 12, searcher=new_sampler(), out=1)
            tuned(parts, 20, searcher=new_sampler(), out=1)
            assert [r.schedule for r in uninterrupted.trials()] == [r.schedule for r in parts.trials()]

    def test_the_model_is_restored_with_the_trials(self, store: Store) -> None:
        trained: list[int] = []

        class Flat:
            def predict(self, X: np.ndarray) -> np.ndarray:
                return np.zeros(len(X))

        def fit(rows: np.ndarray, times: np.ndarray) -> Flat:
            trained.append(len(rows))
            return Flat()

        def new_sampler() -> Sampler:
            return EvolutionSampler(
                SPACE, 1, fit=fit, settings=EvolutionSettings(warmup=6, population=16, generations=1)
            )

        tuned(store, 40, searcher=new_sampler())
        assert trained and trained[-1] >= 10, "the model was trained on all except the last batches"
        trained.clear()
        tuned(store, 4, searcher=new_sampler())
        assert trained[0] >= 28, "the first proposals of the second run come from a model of the first run's trials"

    def test_earlier_trials_are_counted_and_their_best_is_shown_first(self, store: Store) -> None:
        first = tuned(store, 20)
        log = Log()
        second = tuned(store, 3, observer=log)
        (start,) = log.starts
        assert (start.earlier, second.earlier, start.trials) == (20, 20, 3)
        assert start.best == first.best
        assert " 20 trials of this problem on h200 (measured); up to 3 more will be tried" in start.lines[-1]
        assert second.best is not None and first.best is not None
        assert second.best.seconds is not None and first.best.seconds is not None
        assert second.best.seconds <= first.best.seconds

    @pytest.mark.parametrize("other", ["device", "provenance", "space", "template"])
    def test_the_sampler_and_the_ranking_ignore_trials_of_another_kind(self, store: Store, other: str) -> None:
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
        assert tried_before <= {r.schedule.key() for r in result.trials}, (
            "schedules of another version's trials are tried again"
        )
        if other in ("device", "provenance"):
            assert result.earlier == 0
            assert result.best is not None and result.best.seconds == pytest.approx(1e-6)
            assert result.best.device == "h200" and result.best.provenance is Provenance.MEASURED


class TestVerification:
    """New best schedules are verified before they are reported as best."""

    def test_a_wrong_kernel_is_recorded_as_wrong_and_is_not_best(self, store: Store) -> None:
        verified: list[Schedule] = []

        def verifier(schedule: Schedule) -> Outcome:
            verified.append(schedule)
            return Outcome(False, "wrong_result", "17 elements differ", 300.0) if schedule["x"] == 8 else Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        wrong = [r for r in result.trials if r.status is Status.WRONG_RESULT]
        assert wrong and all(r.schedule["x"] == 8 for r in wrong)
        assert wrong[0].measurement.reason == "emulated: wrong_result: 17 elements differ"
        assert wrong[0].measurement.error == 300.0
        assert result.best is not None and result.best.schedule["x"] != 8
        assert store.best(PROBLEM, "h200") == result.best
        assert result.best.measurement.error == 0.5, "the best is verified, and its error is stored"

    def test_only_new_bests_are_judged(self, store: Store) -> None:
        verified: list[Schedule] = []

        def verifier(schedule: Schedule) -> Outcome:
            verified.append(schedule)
            return Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        times = [seconds(s) for s in verified]
        assert times == sorted(times, reverse=True)
        assert len(verified) < len(result.trials) / 2

    def test_there_is_no_best_if_no_schedule_is_verified(self, store: Store) -> None:
        result = tuned(
            store, 12, FakeRunner(Provenance.ESTIMATED), verifier=lambda s: Outcome(False, "timeout", "60 s")
        )
        assert result.best is None
        assert result.ok == 0

    def test_an_unverified_best_of_an_earlier_run_is_judged_first(self, store: Store) -> None:
        unverified = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))
        assert unverified.best is not None
        fastest = unverified.best.schedule
        result = tuned(
            store,
            1,
            FakeRunner(Provenance.ESTIMATED, fail=lambda s: Status.CRASHED),
            verifier=lambda s: Outcome(s["x"] != fastest["x"], "findings", "a race"),
        )
        assert result.best is not None and result.best.schedule["x"] != fastest["x"]
        assert store.best(PROBLEM, "h200") == result.best
        assert len(result.trials) == 1, "a schedule verified again is not a trial of this run"

    @pytest.mark.parametrize("status", ["findings", "timeout"])
    def test_samplers_do_not_receive_times_of_rejected_trials(self, store: Store, status: str) -> None:
        first = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))
        assert first.best is not None
        fastest = first.best.schedule

        def verifier(schedule: Schedule) -> Outcome:
            return Outcome(schedule["x"] != fastest["x"], status, "a race")

        judging, later = Listening(), Listening()
        tuned(store, 1, FakeRunner(Provenance.ESTIMATED), judging, verifier=verifier)
        rejected = {r.schedule for r in store.trials() if r.status in (Status.WRONG_RESULT, Status.UNVERIFIED)}
        assert rejected and all(s["x"] == fastest["x"] for s in rejected)
        tuned(store, 1, FakeRunner(Provenance.ESTIMATED), later)
        for heard in (judging, later):
            assert not [restored for restored in heard.restored if restored[0] in rejected and restored[1] is Status.OK]
            assert {s for s, _ in heard.restored} >= {r.schedule for r in first.trials if r.schedule not in rejected}
        restored_rejected = {s for s, _ in later.restored} & rejected
        assert restored_rejected == (rejected if status == "findings" else set()), (
            "an unverified schedule may be tried again"
        )

    def test_a_schedule_that_breaks_a_current_constraint_is_not_verified(self, store: Store) -> None:
        tuned(store, 4, FakeRunner(Provenance.ESTIMATED))

        def verifier(schedule: Schedule) -> Outcome:
            raise ValueError("tile_m must divide 7")

        result = tuned(store, 1, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert result.best is None
        assert any(r.measurement.reason == "emulated: tile_m must divide 7" for r in store.trials())

    @pytest.mark.parametrize("status", ["timeout", "compile_error"])
    def test_without_a_verdict_a_schedule_is_neither_best_nor_wrong(self, store: Store, status: str) -> None:
        def verifier(schedule: Schedule) -> Outcome:
            return Outcome(False, status, "60 s", None) if schedule["x"] == 8 else Outcome(True)

        first = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        unverified = [r for r in first.trials if r.status is Status.UNVERIFIED]
        assert unverified and all(r.schedule["x"] == 8 for r in unverified)
        assert unverified[0].measurement.reason == f"emulated: {status}: 60 s"
        assert first.best is not None and first.best.schedule["x"] != 8
        assert not any(r.status is Status.WRONG_RESULT for r in store.trials())

        runner = FakeRunner(Provenance.ESTIMATED)
        again = tuned(store, TOTAL, runner, verifier=lambda s: Outcome(True))
        assert {s.key() for s in runner.measured} <= {r.schedule.key() for r in unverified}, (
            "unverified schedules are tried again"
        )
        assert again.best is not None and again.best.schedule["x"] == 8
        assert store.best(PROBLEM, "h200") == again.best

    def test_an_unverified_earlier_best_is_verified_before_it_is_best(self, store: Store) -> None:
        unverified = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))
        assert unverified.best is not None
        fastest = unverified.best.schedule
        arguments = {"runner": FakeRunner(Provenance.ESTIMATED, fail=lambda s: Status.CRASHED)}
        late = tuned(store, 1, verifier=lambda s: Outcome(s["x"] != fastest["x"], "timeout", "60 s"), **arguments)
        assert late.best is not None and late.best.schedule["x"] != fastest["x"]
        assert store.best(PROBLEM, "h200") == late.best

    def test_a_host_failure_stops_the_search_without_rejecting_schedules(self, store: Store) -> None:
        def verifier(schedule: Schedule) -> Outcome:
            if schedule["x"] == 8:
                raise HostFailure("g++ cannot compile: repair it")
            return Outcome(True)

        result = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert "g++ cannot compile: repair it; or use --no-verify" in result.stopped
        assert store.trials() == list(result.trials)
        assert not any(r.status in (Status.WRONG_RESULT, Status.UNVERIFIED) for r in result.trials)
        assert result.best == store.best(PROBLEM, "h200")
        healthy = tuned(store, TOTAL, FakeRunner(Provenance.ESTIMATED), verifier=lambda s: Outcome(True))
        assert healthy.best is not None and healthy.best.schedule["x"] == 8

    def test_a_host_failure_at_the_start_keeps_the_stored_best(self, store: Store) -> None:
        before = tuned(store, 20, FakeRunner(Provenance.ESTIMATED))

        def verifier(schedule: Schedule) -> Outcome:
            raise HostFailure("the disk is full: make room")

        result = tuned(store, 5, FakeRunner(Provenance.ESTIMATED), verifier=verifier)
        assert "the disk is full" in result.stopped and result.trials == ()
        assert store.count() == 20 and store.best(PROBLEM, "h200") == before.best


class TestInterruption:
    def test_ctrl_c_keeps_all_trials_and_stops_the_runner(self, store: Store) -> None:
        runner = FakeRunner(raises=(9, KeyboardInterrupt()))
        result = tuned(store, 20, runner)
        assert result.interrupted
        assert list(result.trials) == store.trials()
        assert len(result.trials) >= 9
        assert result.best == store.best(PROBLEM, "h200")
        assert runner.abandoned == 1, "the runner was stopped"

    def test_ctrl_c_while_the_observer_shows_a_trial(self, store: Store) -> None:
        class Impatient(Log):
            def trial(self, progress: Progress) -> None:
                super().trial(progress)
                if progress.done == 3:
                    raise KeyboardInterrupt

        result = tuned(store, 20, observer=Impatient())
        assert result.interrupted and len(result.trials) == store.count() == 3

    def test_the_next_run_continues(self, store: Store) -> None:
        tuned(store, 20, FakeRunner(raises=(9, KeyboardInterrupt())))
        stored = store.count()
        result = tuned(store, 5)
        assert (result.earlier, store.count()) == (stored, stored + 5)


class TestObserver:
    def test_the_observer_sees_every_trial_and_the_current_best(self, store: Store) -> None:
        log = Log()
        result = tuned(store, 15, FakeRunner(fail=lambda s: Status.CRASHED if s["x"] == 1 else None), observer=log)
        assert [p.trial for p in log.steps] == list(result.trials)
        assert [p.done for p in log.steps] == list(range(1, 16))
        fastest: float | None = None
        for step in log.steps:
            if step.trial.seconds is not None:
                fastest = min(step.trial.seconds, fastest or math.inf)
            assert (step.best.seconds if step.best else None) == fastest
        assert log.steps[-1].failures == result.failures
        assert log.steps[-1].seconds_left == 0
        assert log.steps[4].seconds_left == pytest.approx(10 / log.steps[4].rate)

    def test_the_first_lines_report_backend_and_stored_trials(self, store: Store) -> None:
        log = Log()
        result = tuned(store, 1, lines=("backend fake, because",), observer=log)
        assert log.starts[0].lines == result.lines
        assert result.lines[0] == "backend fake, because"
        assert "has 0 trials of this problem on h200 (measured); up to 1 more will be tried" in result.lines[1]


KILLED = """
import sys, time
sys.path[:0] = PATHS
import toy_tuning as t
from autosched.samplers import sampler
from measurements.store.store import Store
class Slow(t.FakeRunner):
    def measure(self, candidates):
        for result in super().measure(candidates):
            time.sleep(0.003)
            yield result
            print(result[0], flush=True)  # the trial has been stored when the next one is asked for
space = t.Space("toy", (t.ordinal("x", tuple(range(1, 200))), t.ordinal("y", tuple(range(1, 200)))), (), ())
def generate(problem, schedule, device):
    return t.GeneratedKernel(entry="k", source=schedule.key(), arguments=(), grid=(1, 1, 1), block=(32, 1, 1))
store = Store.open(sys.argv[1])
print("ready", flush=True)
made = sampler("random", space, seed=1)
run = t.RunIdentity(t.PROBLEM, t.H200, Slow().provenance, None, 1, {}, {"toy": "s"})
parts = t.TunerParts(run, Slow(), store, made, generate=generate, in_flight=t.InFlightLimit(compilers=4))
t.Tuner(parts).run(t.SearchPlan(trials=10**6))
"""


class TestKilled:
    def test_a_killed_search_loses_at_most_the_trial_in_flight(self, tmp_path: Path) -> None:
        path, random = tmp_path / "a.db", np.random.default_rng(3)
        paths = [str(Path(__file__).parent), *(p for p in sys.path if p)]
        code = KILLED.replace("PATHS", json.dumps(paths))
        acknowledged = 0
        for attempt in range(4):
            tuning = forked_python.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
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
            assert len(set(keys)) == len(keys), "no schedule is tried twice"
            assert acknowledged <= len(stored) <= acknowledged + attempt + 1
            with closing(sqlite3.connect(path)) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
