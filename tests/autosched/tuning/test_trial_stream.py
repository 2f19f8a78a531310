"""Trials in flight, and the order in which the search uses the results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_tuning import SPACE, FakeRunner, Outcome, tuned

from autosched.samplers import Sampler, sampler
from autosched.samplers.seeded import SeededSampler
from autosched.tuning.in_flight import InFlightLimit
from measurements.runners.base import Candidate
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Status
from search_spaces.spaces.schedule import Schedule


class Generations(Sampler):
    """A random sampler that proposes in generations, and records how many proposals each call requests."""

    name = "generations"
    batch = 1

    def __init__(self, generation: int) -> None:
        self.batch = generation
        self.requests: list[int] = []
        self._random = sampler("random", SPACE, seed=1)

    def ask(self, n: int) -> list[Schedule]:
        self.requests.append(n)
        return self._random.ask(n)

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._random.tell(schedule, measurement)


@pytest.mark.parametrize("generation", [1, 2, 16])
def test_a_sampler_that_proposes_batches_is_asked_for_batches(store: Store, generation: int) -> None:
    """Trials in flight may exceed the limit by up to one batch, so that trials run while a batch is being proposed."""
    sampler = Generations(generation)
    assert len(tuned(store, 40, searcher=SeededSampler(sampler, [], "nobody"), out=8).trials) == 40
    assert sampler.requests[0] == 8 + generation - 1 and sum(sampler.requests) == 40
    assert min(sampler.requests[:-1]) == generation and max(sampler.requests) == sampler.requests[0]


class Shuffled:
    """A stream that returns results in a random order.

    The stream ends after ``ends`` results, as if the runner was closed. Results become ready in groups of ``lumps``.
    """

    def __init__(self, runner: FakeRunner, seed: int, ends: int, lumps: int) -> None:
        self._runner, self._rng = runner, np.random.default_rng(seed)
        self._left, self._lumps = ends, lumps
        self._waiting: list[tuple[int, Candidate]] = []
        self._added = 0
        self._returned = 0
        self.closed = False
        self.seconds = 0.01

    def add(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            self._waiting.append((self._added, candidate))
            self._added += 1

    def ready(self) -> bool:
        return bool(self._waiting) and self._returned % self._lumps != 0

    def __iter__(self) -> Iterator[tuple[int, Measurement]]:
        return self

    def __next__(self) -> tuple[int, Measurement]:
        if not self._waiting or self._left == 0:
            raise StopIteration
        self._left, self._returned = self._left - 1, self._returned + 1
        position, candidate = self._waiting.pop(int(self._rng.integers(len(self._waiting))))
        ((_, measurement),) = self._runner.measure([candidate])
        return position, measurement

    def close(self) -> None:
        self.closed = True


class StreamingRunner(FakeRunner):
    def __init__(self, seed: int, *, ends: int = -1, lumps: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.streams: list[Shuffled] = []
        self._stream_arguments = (seed, ends, lumps)

    def stream(self) -> Shuffled:
        self.streams.append(Shuffled(self, *self._stream_arguments))
        return self.streams[-1]


class Watched(Sampler):
    """A wrapper of a sampler that records the number of proposals in flight before and after each request."""

    name = "watched"

    def __init__(self, name: str) -> None:
        self._sampler = sampler(name, SPACE, seed=1)
        self.num_reported = 0
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
        self.out, self.num_reported = self.out - 1, self.num_reported + 1
        self._sampler.tell(schedule, measurement)


class TestStream:
    def test_results_without_a_gpu_are_independent_of_completion_order(self, tmp_path: Path) -> None:
        """Trials, verdicts, and the choice among schedules with equal times do not depend on completion order."""

        def verdict(schedule: Schedule) -> Outcome:
            wrong = schedule["letter"] == "b" and schedule.integer("x") > 1
            return Outcome(not wrong, "wrong_result" if wrong else "ok", "it adds twice" if wrong else "")

        results, orders = [], []
        for seed in range(4):
            with Store.open(tmp_path / f"{seed}.db") as store:
                runner = StreamingRunner(seed, time_of=lambda s: 1e-6 if s.integer("x") < 16 else 2e-6)
                result = tuned(
                    store,
                    40,
                    runner,
                    sampler("bayes", SPACE, seed=1),
                    in_flight=InFlightLimit(most=8),
                    verifier=verdict,
                )
                assert result.best is not None and runner.streams[0].closed
                trials = [(r.schedule, r.status) for r in store.trials()]
                results.append((trials, result.best.schedule))
                orders.append(runner.measured)
        assert all(one == results[0] for one in results)
        assert not all(order == orders[0] for order in orders)
        assert {status for _, status in results[0][0]} >= {Status.OK, Status.WRONG_RESULT}

    def test_on_a_gpu_the_sampler_receives_each_result_at_once(self, store: Store) -> None:
        sampler = Watched("random")
        result = tuned(store, 50, StreamingRunner(3), sampler, out=8)
        assert len(result.trials) == 50 == sampler.num_reported and sampler.out == 0
        assert sampler.before[0] == 0 and all(before >= 1 for before in sampler.before[1:]), (
            "the sampler never waits for all results"
        )
        assert max(sampler.after) == 8 == sampler.after[0]

    def test_the_sampler_receives_all_ready_results_before_it_proposes(self, store: Store) -> None:
        sampler = Watched("random")
        tuned(store, 50, StreamingRunner(3, lumps=4), sampler, out=4)
        assert sampler.before.count(0) > 3

    def test_a_runner_closed_during_the_search_is_reported(self, store: Store) -> None:
        for in_flight in (InFlightLimit(most=4), InFlightLimit(compilers=4)):
            num_stored = store.count()
            result = tuned(store, 30, StreamingRunner(0, ends=5), in_flight=in_flight)
            assert result.stopped == "the runner was closed" and not result.exhausted
            assert 5 <= len(result.trials) == store.count() - num_stored < 30  # more than 5 if schedules share a kernel

    def test_a_sampler_that_returns_too_few_is_called_again(self, store: Store) -> None:
        class Sparing(Watched):
            def ask(self, n: int) -> list[Schedule]:
                return super().ask(min(n, 1))

        result = tuned(store, 20, StreamingRunner(0), Sparing("random"))
        assert len(result.trials) == 20 and not result.exhausted
