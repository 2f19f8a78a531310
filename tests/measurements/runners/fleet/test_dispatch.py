"""Every job gets exactly one result, whichever members are lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

import measurements.runners.fleet.dispatch as dispatching
from measurements.runners.base import RunnerStopped
from measurements.runners.fleet.dispatch import IN_FLIGHT, MOST_LOSSES, Dispatcher, JobLost, WorkersLost
from measurements.runners.fleet.runner import FleetRunner
from measurements.trials.measurement import Status
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul


class Lost(Exception):
    """Raised by a member that is lost."""


class Member:
    """Fake member that executes its jobs in order when the test requests it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: list[tuple[Any, Future[Any]]] = []
        self.dead = False

    def job(self, work: Any) -> Member:
        if self.dead:
            raise Lost(self.name)
        self.jobs.append((work, Future()))
        return self

    def future(self) -> Future[Any]:
        return self.jobs[-1][1]

    def finish(self, result: Callable[[Any], Any] = lambda work: work) -> None:
        work, future = self.jobs.pop(0)
        try:
            future.set_result(result(work))
        except ValueError as error:
            future.set_exception(error)

    def die(self) -> None:
        self.dead = True
        jobs, self.jobs = self.jobs, []
        for _, future in jobs:
            future.set_exception(Lost(f"{self.name}\nand details"))


def dispatcher_of(*members: Member) -> Dispatcher:
    instance = Dispatcher(lambda error: isinstance(error, Lost))
    for member in members:
        instance.add(member)
    return instance


def submit(to: Dispatcher, work: Any) -> Future[Any]:
    return to.submit(lambda member: member.job(work))


def test_each_member_has_one_running_and_one_waiting_job() -> None:
    a, b = Member("a"), Member("b")
    dispatcher = dispatcher_of(a, b)
    results = [submit(dispatcher, n) for n in range(7)]
    assert [work for work, _ in a.jobs] == [0, 2] and [work for work, _ in b.jobs] == [1, 3]
    assert len(a.jobs) == IN_FLIGHT
    a.finish()
    assert [work for work, _ in a.jobs] == [2, 4] and results[0].result() == 0


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_completed_exactly_once(seed: int) -> None:
    rng = random.Random(seed)
    members = [Member("m0"), Member("m1")]
    dispatcher = dispatcher_of(*members)
    results = [submit(dispatcher, n) for n in range(60)]
    completed: list[int] = []
    for result in results:
        result.add_done_callback(lambda done: completed.append(done.result()))
    for n in range(2000):
        if all(r.done() for r in results):
            break
        living = [m for m in members if not m.dead]
        busy = [m for m in living if m.jobs]
        if busy and rng.random() < 0.9:
            rng.choice(busy).finish()
        elif len(living) > 1 and rng.random() < 0.3:
            rng.choice(living).die()
        else:
            members.append(Member(f"m{n}"))
            dispatcher.add(members[-1])
    assert sorted(completed) == list(range(60))


def test_an_error_of_a_job_is_its_result() -> None:
    a = Member("a")
    dispatcher = dispatcher_of(a)
    result = submit(dispatcher, 1)

    def fail(work: Any) -> Any:
        raise ValueError("no such schedule")

    a.finish(fail)
    with pytest.raises(ValueError, match="no such schedule"):
        result.result()
    assert dispatcher.members == 1 and dispatcher.resubmitted == 0


def test_only_a_job_that_kills_its_workers_is_abandoned() -> None:
    dispatcher = dispatcher_of()
    killer = submit(dispatcher, "killer")
    other_futures = [submit(dispatcher, n) for n in range(3)]
    for n in range(MOST_LOSSES):
        member = Member(f"m{n}")
        dispatcher.add(member)
        while member.jobs[0][0] != "killer":
            assert n, "the killer job was the first job of the first member"
            member.finish()
        member.die()
    with pytest.raises(WorkersLost, match="m3"):
        killer.result()
    assert [o.result() for o in other_futures] == [0, 1, 2]
    assert dispatcher.lost == MOST_LOSSES


def test_a_straggler_is_dispatched_twice_and_the_first_result_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "LEAST_STRAGGLING", -1.0)
    monkeypatch.setattr(dispatching, "STRAGGLING", 0.0)
    slow, quick = Member("slow"), Member("quick")
    dispatcher = dispatcher_of(slow, quick)
    straggler, other = submit(dispatcher, "straggler"), submit(dispatcher, "other")
    dispatcher.check_jobs(60)
    assert not quick.jobs[1:], "no member is idle"
    quick.finish()
    dispatcher.check_jobs(60)
    dispatcher.check_jobs(60)
    assert [work for work, _ in quick.jobs] == ["straggler"], "once"
    quick.finish(lambda work: f"{work} of quick")
    slow.finish(lambda work: f"{work} of slow")
    assert (straggler.result(), other.result()) == ("straggler of quick", "other")


def test_jobs_are_abandoned_after_a_long_time_without_workers() -> None:
    dispatcher = dispatcher_of()
    result = submit(dispatcher, 1)
    dispatcher.check_jobs(60)
    assert not result.done()
    dispatcher.check_jobs(-1)
    with pytest.raises(JobLost, match="the cluster has had no worker for"):
        result.result()


def test_closing_cancels() -> None:
    a = Member("a")
    dispatcher = dispatcher_of(a)
    results = [submit(dispatcher, n) for n in range(4)]
    dispatcher.close()
    assert all(r.cancelled() for r in results)
    with pytest.raises(RuntimeError, match="closed"):
        submit(dispatcher, 5)


def test_a_candidate_that_kills_its_workers_is_a_crash() -> None:
    dispatcher = dispatcher_of()
    runner = FleetRunner(SimpleNamespace(gpus=lambda _: dispatcher), device("h100"), None)  # type: ignore[arg-type]
    runner._checks = "compiled check kernels"
    measured = runner._answer(Matmul(m=8, n=8, k=8), "measure", lambda member, *_: member.job("candidate"))
    for n in range(MOST_LOSSES):
        member = Member(f"m{n}")
        dispatcher.add(member)
        member.die()
    measurement, seconds = measured.result()
    assert (measurement.status, seconds) == (Status.CRASHED, 0.0)


def test_a_cluster_without_workers_stops_a_measurement() -> None:
    dispatcher = dispatcher_of()
    runner = FleetRunner(SimpleNamespace(gpus=lambda _: dispatcher), device("h100"), None)  # type: ignore[arg-type]
    runner._checks = "compiled check kernels"
    measured = runner._answer(Matmul(m=8, n=8, k=8), "measure", lambda member, *_: member.job("candidate"))
    dispatcher.check_jobs(-1)
    with pytest.raises(RunnerStopped):
        measured.result()
