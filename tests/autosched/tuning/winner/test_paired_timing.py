"""The final comparison of tuning: the finalists, the winner, and the resulting database."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from autosched.cli.commands.tuning.tune import _remeasured_facts
from autosched.cli.options.stored import refuse_unusable
from autosched.regression.since_tuning import AtTuning
from autosched.reporting.formatting import trial_facts
from autosched.samplers import sampler
from autosched.tuning.ledger import RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.plan import SearchPlan
from autosched.tuning.result import TuneResult
from autosched.tuning.winner import paired_timing
from measurements.runners.base import Candidate, Entrant
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.policy import DEFAULT, Policy
from measurements.trials.recording import Recording
from measurements.trials.trial import Control, Trial, canonical_json
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet

H200 = device("h200")
PROBLEM = Matmul(m=64, n=48, k=32)
SPACE = Space("toy", (ordinal("x", tuple(range(40))),))


def generate(problem: Problem, schedule: Schedule, device: object) -> GeneratedKernel:
    if "x" not in schedule.values:
        raise ValueError("there is no such schedule")
    return GeneratedKernel(entry="k", source=f"{schedule['x']}", arguments=(), grid=(1, 1, 1), block=(32, 1, 1))


def time_of(x: int) -> float:
    return 1e-6 * (1 + x / 20)


class PairedRunner:
    """Fake backend.

    Screening measures ``screened(x)``. Comparisons measure ``true(x)`` with noise that is equal for all modules in a
    round.
    """

    name, provenance = "turns", Provenance.MEASURED

    def __init__(
        self,
        true: Callable[[int], float],
        screened: Callable[[int], float] = time_of,
        *,
        noise: float = 0.0,
        fate: Callable[[int], Status] = lambda x: Status.OK,
        library: float | None = 2e-6,
        library_kills: bool = False,
        copy: float | None = None,
    ) -> None:
        self.copy = copy
        self.true, self.screened, self.noise, self.fate, self.library = true, screened, noise, fate, library
        self.library_kills = library_kills
        self.compared: list[list[int]] = []
        self.rng = np.random.default_rng(0)

    def describe(self) -> str:
        return "backend turns"

    def fingerprint(self) -> dict[str, str]:
        return {"device": "h200", "cache": "cold"}

    def close(self) -> None:
        pass

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for i, candidate in enumerate(candidates):
            t = self.screened(candidate.schedule.integer("x"))
            yield i, Measurement(Status.OK, self.provenance, timing=Timing(t, t, t, 9), error=0.1)

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        xs = [c.schedule.integer("x") for c in candidates]
        self.compared.append(xs)
        shared = 1 + 0.05 * self.rng.random(rounds)
        entrants = []
        fates = [self.fate(x) for x in xs]
        down = Status.CRASHED in fates or (library and self.library_kills)
        for x, fate in zip(xs, fates, strict=True):
            if down or fate is not Status.OK:
                entrants.append(Entrant(f"{x}", Status.CRASHED if down else fate, "on demand", ()))
            else:
                noise_factors = np.exp(self.noise * self.rng.standard_normal(rounds))
                entrants.append(
                    Entrant(f"{x}", Status.OK, "", tuple(self.true(x) * shared * noise_factors), 0.2, 1980.0)
                )
        for name, time in (("library", self.library), ("copy", self.copy)):
            if name in other_baselines or (name == "library" and library):
                if down:
                    entrants.append(Entrant(name, Status.CRASHED, "the worker died", ()))
                elif time is None:
                    entrants.append(Entrant(name, Status.LAUNCH_ERROR, "there is none", ()))
                else:
                    version = "cublas 13.2.0" if name == "library" else ""
                    times = tuple(time * shared)
                    entrants.append(Entrant(name, Status.OK, "", times, 0.5, 1980.0, version))
        return tuple(entrants)


def tuned(
    store: Store,
    runner: PairedRunner,
    trials: int = 40,
    complexity: Callable[[Schedule], float] | None = None,
    default: Schedule | None = None,
):
    parts = Tuner(
        TunerParts(
            RunIdentity(PROBLEM, H200, runner.provenance, None, 1, {}, {"toy": "s"}),
            runner,
            store,
            sampler("random", SPACE, seed=1),
            generate=generate,
            complexity=complexity or (lambda schedule: 0.0),
            default=lambda: default,
        )
    )
    return parts.run(SearchPlan(trials=trials))


def order(result: TuneResult) -> list[int]:
    assert result.remeasured is not None
    return [result.entrants[p.position].integer("x") for p in result.remeasured.standings]


def test_the_fastest_in_the_final_wins_over_the_fastest_in_screening(store: Store) -> None:
    result = tuned(store, PairedRunner(lambda x: 1e-6 * (1.3 - x / 20)))
    assert sorted(order(result)) == list(range(paired_timing.FEWEST_ENTRANTS)), "the fastest of screening are finalists"
    assert order(result) == [5, 4, 3, 2, 1, 0]
    assert result.best is not None and result.best.schedule["x"] == 5
    assert store.best(PROBLEM, "h200") == result.best
    assert (result.best.rank, result.best.measurement.clock_mhz) == (1, 1980.0)
    assert result.remeasured is not None and result.remeasured.clear
    ratio = result.remeasured.library
    assert ratio is not None and ratio.median == pytest.approx(1.05 / 2)
    assert len(result.trials) == 40, "re-measuring is not a trial"
    assert store.count() == 40 + paired_timing.FEWEST_ENTRANTS + 1, "the library is stored in addition"
    assert [(s.trials, s.ok, s.library) for s in store.problems()] == [(40, 40, True)]
    assert tuned(store, PairedRunner(time_of)).earlier == 40


def test_candidates_much_slower_in_screening_are_excluded(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, lambda x: 1e-6 * 1.4**x))
    assert order(result) == [0, 1]


def test_finalists_are_of_different_modules_if_there_are_enough() -> None:
    timings = [Timing(t, t, t, 9) for t in (1 + position / 10000 for position in range(100))]
    assert paired_timing.select_entrants(timings, lambda i: i // 10) == list(range(0, 100, 10))
    assert paired_timing.select_entrants(timings, lambda i: i // 50) == [0, 1, 2, 3, 4, 50]
    assert paired_timing.select_entrants(timings) == list(range(paired_timing.MOST_ENTRANTS))


def test_finalists_are_of_different_structures_if_there_are_too_many() -> None:
    timings = [Timing(t, t, t, 9) for t in (1 + position / 10000 for position in range(100))]
    most = paired_timing.MOST_ENTRANTS
    selected = paired_timing.select_entrants(timings, structure_of=lambda i: min(i // 45, 1))
    assert selected == [*range(most - 1), 45]


def test_a_module_whose_clock_stays_higher_under_load_may_win(store: Store) -> None:
    """The module of x = 12 is fastest in the comparison, although a dozen other modules are faster in screening."""
    result = tuned(
        store,
        PairedRunner(
            lambda x: 0.99e-6 if x == 12 else 1e-6 * (1.02 + x / 1e4),
            lambda x: 1e-6 * (1.03 if x == 12 else 1 + x / 1e3),
        ),
    )
    assert order(result)[0] == 12


def test_only_plausible_winners_continue_after_the_first_rounds(store: Store) -> None:
    runner = PairedRunner(lambda x: 1e-6 * (1 + 0.03 * (x % 4 > 0)), lambda x: 1e-6 * (1 + x / 1e4), noise=0.001)
    result = tuned(store, runner)
    many, few = runner.compared[:2]
    assert len(many) == paired_timing.MOST_ENTRANTS and few == [x for x in many if x % 4 == 0]
    assert order(result)[0] % 4 == 0 and len(order(result)) == len(many), "dropped entrants keep their rank"
    assert result.remeasured is not None
    assert result.remeasured.rounds >= paired_timing.FIRST_ROUNDS + paired_timing.ROUNDS


def test_the_simplest_of_tied_schedules_wins(store: Store) -> None:
    simple = {3: 0.0}
    result = tuned(store, PairedRunner(lambda x: 1e-6), complexity=lambda s: simple.get(s.integer("x"), 1.0))
    assert order(result)[0] == 3
    assert result.best is not None and result.best.schedule["x"] == 3


def test_the_previous_winner_keeps_a_tie_and_loses_to_a_faster_one(store: Store) -> None:
    simple = {3: 0.0}
    first = tuned(store, PairedRunner(lambda x: 1e-6), complexity=lambda s: simple.get(s.integer("x"), 1.0))
    assert order(first)[0] == 3
    again = tuned(
        store, PairedRunner(lambda x: 1e-6 * (1.005 if x == 3 else 1.0)), complexity=lambda s: float(-s.integer("x"))
    )
    assert order(again)[0] == 3, "the earlier winner stays, although others are simpler and slightly faster"
    beaten = tuned(store, PairedRunner(lambda x: 1e-6 * (1.05 if x == 3 else 1.0)))
    assert order(beaten)[0] != 3


def test_tied_schedules_have_the_same_winner_in_every_run(tmp_path: Path) -> None:
    winners = set()
    for seed in range(4):
        with Store.open(tmp_path / f"{seed}.db") as fresh:
            noisy = PairedRunner(lambda x: 1e-6, noise=0.002)
            noisy.rng = np.random.default_rng(seed)
            winners.add(order(tuned(fresh, noisy))[0])
    assert len(winners) == 1


def test_rounds_are_added_until_the_winner_is_clear_or_a_limit_is_reached(store: Store) -> None:
    runner = PairedRunner(lambda x: 1e-6 * (1 + 0.012 * x), noise=0.01)
    result = tuned(store, runner, complexity=lambda s: float(-s.integer("x")))
    assert result.remeasured is not None and result.remeasured.clear
    assert paired_timing.ROUNDS < result.remeasured.rounds <= paired_timing.MOST_ROUNDS
    assert len(runner.compared[0]) > len(runner.compared[-1]) >= 2, "entrants shown to be slower are dropped"
    assert order(result)[0] == 0
    lengths = [len(p.seconds) for p in result.remeasured.standings]
    assert lengths[0] == result.remeasured.rounds and min(lengths) < max(lengths)
    hopeless = paired_timing.remeasure(
        PairedRunner(lambda x: 1e-6 * (1 + 0.01 * x), noise=0.3), runner_candidates(3), [2.0, 1.0, 0.0]
    )
    assert not hopeless.clear and hopeless.rounds == paired_timing.MOST_ROUNDS


def test_the_number_of_finalists_grows_with_the_noise_of_screening() -> None:
    exact = [Timing(t, t, t, 7) for t in 1 + 0.015 * np.arange(40)]
    assert paired_timing.select_entrants(exact[::-1]) == list(range(39, 33, -1)), (
        "exact times give the fewest finalists, fastest first"
    )
    loose = [Timing(t.median, 0.98 * t.median, 1.02 * t.median, 7) for t in exact]
    assert paired_timing.FEWEST_ENTRANTS < len(paired_timing.select_entrants(loose)) < paired_timing.MOST_ENTRANTS
    ties = [Timing(1 + 1e-6 * i, 1.0, 1.0, 7) for i in range(100)]
    assert len(paired_timing.select_entrants(ties)) == paired_timing.MOST_ENTRANTS
    assert paired_timing.select_entrants([]) == []


def test_a_failure_in_a_later_round_restarts_the_final_without_the_entrant() -> None:
    class Late(PairedRunner):
        def compare(self, candidates: Sequence[Candidate], **options: object) -> tuple[Entrant, ...]:
            self.fate = lambda x: Status.LAUNCH_ERROR if x == 1 and len(self.compared) > 1 else Status.OK
            return super().compare(candidates, **options)  # type: ignore[arg-type]

    runner = Late(lambda x: 1e-6 * (1 + 0.01 * x if x < 3 else 1.5), noise=0.02)
    final = paired_timing.remeasure(runner, runner_candidates(5), [4.0, 0.0, 3.0, 2.0, 1.0])
    assert [p.position for p in final.failed] == [1]
    again = next(i for i, xs in enumerate(runner.compared) if i and len(xs) > len(runner.compared[i - 1]))
    assert runner.compared[again] == [0, 2, 3, 4], "the new round includes entrants that had been dropped"
    assert final.standings[0].position in (0, 2)


def runner_candidates(count: int) -> list[Candidate]:
    schedules = [Schedule("toy", (("x", i),)) for i in range(count)]
    return [Candidate(PROBLEM, s, generate(PROBLEM, s, H200)) for s in schedules]


def test_no_rounds_are_added_when_the_time_is_up() -> None:
    candidates = [Candidate(PROBLEM, s, generate(PROBLEM, s, H200)) for s in SPACE.sample(2, 0)]
    same = PairedRunner(lambda x: 1e-6, noise=0.2)
    remeasured = paired_timing.remeasure(same, candidates, [0.0, 0.0], seconds=0.0)
    assert (remeasured.rounds, remeasured.clear) == (paired_timing.ROUNDS, False)
    assert paired_timing.remeasure(same, candidates, [0.0, 0.0]).rounds > paired_timing.ROUNDS


def test_a_winner_with_wrong_results_on_other_inputs_is_removed(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, fate=lambda x: Status.WRONG_RESULT if x == 0 else Status.OK))
    assert order(result)[0] == 1
    assert store.best(PROBLEM, "h200") == result.best and result.best is not None and result.best.schedule["x"] == 1
    (wrong,) = [r for r in store.trials() if r.status is Status.WRONG_RESULT]
    assert wrong.schedule["x"] == 0 and wrong.measurement.reason == "re-measured: on demand"


def test_a_crash_of_an_entrant_does_not_end_the_final(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, fate=lambda x: Status.CRASHED if x == 5 else Status.OK))
    assert order(result) == [0, 1, 2, 3, 4]
    assert result.remeasured is not None and len(result.remeasured.failed) == 1


def test_a_crashing_fastest_entrant_is_excluded(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, fate=lambda x: Status.CRASHED if x == 0 else Status.OK))
    assert order(result) == [1, 2, 3, 4, 5]
    assert (
        result.remeasured is not None and len(result.remeasured.failed) == 1 and result.remeasured.library is not None
    )
    assert result.best is not None and result.best.schedule["x"] == 1
    assert [r.schedule["x"] for r in store.trials() if not r.ok] == [0]


def test_a_shared_timeout_only_rejects_entrants_that_are_late_alone(store: Store) -> None:
    class Late(PairedRunner):
        def compare(self, candidates: Sequence[Candidate], **options: object) -> tuple[Entrant, ...]:
            entrants = super().compare(candidates, **options)  # type: ignore[arg-type]
            late = any(c.schedule["x"] == 2 for c in candidates)
            return tuple(Entrant(a.label, Status.TIMEOUT, "not in time", ()) for a in entrants) if late else entrants

    result = tuned(store, Late(time_of))
    assert order(result) == [0, 1, 3, 4, 5]
    assert [(r.schedule["x"], r.status) for r in store.trials() if not r.ok] == [(2, Status.TIMEOUT)]


def test_a_library_crash_does_not_reject_entrants(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library_kills=True))
    assert order(result) == [0, 1, 2, 3, 4, 5]
    assert result.remeasured is not None and not result.remeasured.failed and result.remeasured.library is None
    assert result.remeasured.why_not.endswith("the worker died")


def test_screening_decides_if_no_entrant_can_be_compared(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, fate=lambda x: Status.TIMEOUT))
    assert result.remeasured is not None and result.remeasured.standings == () and not result.remeasured.clear
    assert result.best is not None and result.best.schedule["x"] == 0


def test_a_missing_library_is_reported_with_its_reason(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library=None))
    assert result.remeasured is not None
    assert (result.remeasured.library, result.remeasured.why_not) == (None, "there is none")


def test_later_candidates_compete_with_the_winner_in_the_next_final(store: Store) -> None:
    upside_down = PairedRunner(lambda x: 1e-6 * (3.0 - x / 20), library=5e-6)
    first = tuned(store, upside_down, 20)
    assert first.best is not None
    second = tuned(store, upside_down, 20)
    assert second.best is not None
    assert first.best.schedule.integer("x") in upside_down.compared[-1], "the earlier winner must compete again"
    assert second.best == store.best(PROBLEM, "h200")


def test_non_default_parameters_are_counted() -> None:
    space = Space("toy", (ordinal("x", (1, 2)), ordinal("y", (1, 2))))
    task = SearchTask(PROBLEM, H200, TemplateSet(()), space)
    assert [task.num_changed(Schedule("toy", (("x", x), ("y", y)))) for x, y in ((1, 1), (1, 2), (2, 2))] == [0, 1, 2]


class TestStore:
    """Ranking of re-measured schedules in the database."""

    def add(self, store: Store, x: int, seconds: float, rank: int | None = None, digest: str | None = None) -> None:
        timing = Timing(seconds, seconds, seconds, 9)
        trial = Trial(
            problem_key=PROBLEM.key(),
            schedule=Schedule("toy", (("x", x),)),
            device="h200",
            fingerprint="{}",
            template_version="v1",
            space_version="s",
            kernel_digest=digest or f"d{x}",
            measurement=Measurement(Status.OK, Provenance.MEASURED, timing=timing),
            toolchain="",
            driver="",
            autosched_version="0",
            created=datetime.now(UTC),
            sampler="random",
            seed=0,
            rank=rank,
        )
        assert store.append(trial).rank == rank

    def best(self, store: Store) -> tuple[int, float]:
        trial = store.best(PROBLEM, "h200")
        assert trial is not None and trial.seconds is not None
        return trial.schedule.integer("x"), trial.seconds

    def test_the_winner_precedes_faster_medians_of_earlier_trials(self, store: Store) -> None:
        self.add(store, 1, 1e-6)
        self.add(store, 2, 2e-6)
        self.add(store, 1, 3e-6, rank=2)
        assert self.best(store) == (2, 2e-6), "without a winner, an entrant's newest time counts"
        self.add(store, 2, 2.5e-6, rank=1)
        assert self.best(store) == (2, 2.5e-6)

    def test_later_trials_may_beat_the_winner(self, store: Store) -> None:
        self.add(store, 1, 1e-6)
        self.add(store, 2, 2e-6, rank=1)
        self.add(store, 3, 2.1e-6)
        assert self.best(store)[0] == 2
        self.add(store, 4, 1.9e-6)
        assert self.best(store)[0] == 4

    def test_the_newest_final_counts(self, store: Store) -> None:
        self.add(store, 1, 1e-6, rank=1)
        self.add(store, 1, 3e-6, rank=2)
        self.add(store, 2, 2e-6, rank=1)
        assert self.best(store)[0] == 2

    def test_a_win_of_an_older_kernel_does_not_count(self, store: Store) -> None:
        self.add(store, 1, 1e-6)
        self.add(store, 2, 2e-6, rank=1)
        self.add(store, 2, 5e-6, digest="newer")
        assert self.best(store)[0] == 1


def test_times_of_different_policies_are_not_mixed(store: Store) -> None:
    cold = tuned(store, PairedRunner(time_of), 3)
    assert cold.best is not None and cold.best.policy == DEFAULT
    faster = [
        dataclasses.replace(
            r,
            fingerprint=canonical_json({"device": "h200", "cache": "warm"}),
            measurement=dataclasses.replace(r.measurement, timing=Timing.of([1e-9 * (1 + k)])),
            rank=None,
        )
        for k, r in enumerate(r for r in store.trials(PROBLEM) if r.ok)
    ]
    store.extend(faster)
    warm = str(Policy("warm"))
    assert {s.policy for s in store.problems()} == {DEFAULT, warm}
    assert store.best(PROBLEM, "h200") == cold.best, "a time from a warm L2 does not win"
    best = store.best(PROBLEM, "h200", policy=warm)
    assert best is not None and best.seconds == 1e-9 and best.policy == warm
    again = tuned(store, PairedRunner(time_of), 3)
    assert again.earlier == cold.earlier + len(cold.trials), "the search only uses times of its own policy"


def test_a_library_that_is_faster_is_the_winner_and_recorded(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library=0.8e-6))
    assert result.best is not None and is_library(result.best.schedule) and store.best(PROBLEM, "h200") == result.best
    assert (result.best.toolchain, result.best.kernel_digest, result.best.rank) == ("cublas 13.2.0", None, 1)
    assert result.best.seconds == pytest.approx(0.8e-6, rel=0.06) and result.best.measurement.error == 0.5
    assert [r.rank for r in store.trials(PROBLEM) if r.rank] == [7, 6, 5, 4, 3, 2, 1]
    assert result.remeasured is not None and result.remeasured.library_won
    again = tuned(store, PairedRunner(time_of, library=0.8e-6))
    assert again.earlier == 40 and again.best is not None and is_library(again.best.schedule)
    assert order(again) == order(result), "schedules beaten by the library compete again"


def test_a_losing_library_is_recorded_with_its_rank(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library=1.12e-6))
    assert result.best is not None and result.best.schedule["x"] == 0
    run = [r for r in store.trials(PROBLEM) if r.rank]
    assert [r.rank for r in run] == [7, 6, 5, 4, 3, 2, 1]
    assert [r.rank for r in run if is_library(r.schedule)] == [4], "0, 1 and 2 are faster"
    (library,) = [r for r in run if is_library(r.schedule)]
    assert library.seconds == pytest.approx(1.12e-6, rel=0.06) and library.toolchain == "cublas 13.2.0"
    then = AtTuning.of(store.trials(PROBLEM), result.best)
    assert then is not None and library.measurement.timing is not None
    assert then.entry.median == result.best.seconds
    assert then.control == Control("library", library.measurement.timing, "cublas 13.2.0")
    again = tuned(store, PairedRunner(time_of, library=None))
    assert again.best is not None and AtTuning.of(store.trials(PROBLEM), again.best) is None, "the newest one counts"


def test_a_copy_is_the_control_without_a_library(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library=None, copy=0.5e-6))
    assert result.best is not None and result.best.control is not None
    assert result.best.control.name == "copy" and result.best.control.timing.median == pytest.approx(0.5e-6, rel=0.06)
    assert not any(is_library(r.schedule) for r in store.trials(PROBLEM)), "a copy never wins"
    then = AtTuning.of((), result.best)
    assert then is not None and then.control == result.best.control
    assert Trial.from_json(result.best.to_json()) == result.best
    assert [r.control for r in store.trials(PROBLEM) if r.rank and r.rank > 1] == [None] * 5
    with_library = tuned(store, PairedRunner(time_of, library=2e-6, copy=0.5e-6)).best
    assert with_library is not None and with_library.control is not None and with_library.control.name == "library"
    neither = tuned(store, PairedRunner(time_of, library=None)).best
    assert neither is not None and neither.control is None


def test_a_schedule_tied_with_the_library_replaces_it(store: Store) -> None:
    tuned(store, PairedRunner(time_of, library=0.8e-6))
    for library in (0.995e-6, 1.2e-6):
        result = tuned(store, PairedRunner(time_of, library=library))
        assert result.remeasured is not None and not result.remeasured.library_won
        assert result.best is not None and result.best.schedule["x"] == 0 and store.best(PROBLEM, "h200") == result.best


def test_a_recording_leaves_the_library_out(store: Store) -> None:
    tuned(store, PairedRunner(time_of, library=0.8e-6))
    (recording,) = Recording.of(store.trials())
    assert set(recording.spaces) == {"toy"}


def test_the_default_always_enters_the_final(store: Store) -> None:
    default = Schedule("toy", (("x", 33),))
    runner = PairedRunner(lambda x: 0.5e-6 if x == 33 else time_of(x), lambda x: 1e-6 * 1.4**x)
    result = tuned(store, runner, default=default)
    assert order(result) == [33, 0, 1]
    assert result.best is not None and result.best.schedule == default
    again = tuned(store, runner, default=Schedule("toy", (("y", 1),)))
    assert again.best is not None and again.best.schedule == default, "a default without a kernel is skipped"


def test_a_default_that_was_not_screened_enters_the_final(store: Store) -> None:
    default = Schedule("toy", (("x", 33),))
    result = tuned(store, PairedRunner(time_of), trials=3, default=default)
    assert 33 in order(result)


def test_best_shows_that_the_library_won(store: Store) -> None:
    result = tuned(store, PairedRunner(time_of, library=0.8e-6))
    assert result.remeasured is not None and result.best is not None
    ((_, fact),) = [row for row in _remeasured_facts(result.remeasured) if row[0] == "library"]
    assert "library won" in fact and "1.250" in fact
    best = result.best
    facts = dict(trial_facts(PROBLEM, best))
    assert facts["winner"] == "the vendor's library: no tried schedule was as fast"
    assert facts["version"] == "cublas 13.2.0"
    refuse_unusable("best.db", PROBLEM, best, H200)
