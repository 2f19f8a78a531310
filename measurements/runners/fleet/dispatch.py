"""Distribute jobs to members of a cluster, which may be lost. Each job gets exactly one result.

A member is an actor: either one that owns a GPU, or a compiler. A member executes one job at a time, in order. The next
job is already in the member's queue, so that the member does not wait for the network. A job of a lost member is moved
to another member. A job that takes much longer than other jobs is also sent to an idle member, and the first result is
used.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

IN_FLIGHT = 2  # maximum number of jobs of a member: one running, one waiting
MOST_LOSSES = 4  # a job fails once this many members were lost while they ran it
STRAGGLING = 4.0  # after this multiple of the median duration, a job is also sent to an idle member
LEAST_STRAGGLING = 5.0  # seconds; jobs are not sent to a second member before this time
_REMEMBERED = 64  # number of recent durations in the median


class JobLost(Exception):
    """A job has no result: no member remains, or too many members were lost during the job. The message is one line."""


class WorkersLost(JobLost):
    """MOST_LOSSES members were lost while they ran the job, so the job may be the cause."""


class Pending(Protocol):
    """A job that was sent to a member and has no result yet."""

    def future(self) -> Future[Any]:
        """Return a future, which receives the result."""


@dataclass(eq=False)
class _Job:
    call: Callable[[Any], Pending]
    result: Future[Any] = field(default_factory=Future)
    losses: int = 0
    copies: int = 0  # number of members that have the job in their queue


@dataclass(eq=False)
class _Member:
    handle: Any
    jobs: deque[_Job] = field(default_factory=deque)  # jobs in the member's queue; the first job is running
    since: float = 0.0  # start time of the first job
    suspect: _Job | None = None  # job that was running when the member was lost


class Dispatcher:
    """Dispatcher of jobs. Thread-safe. Results are set in the threads that receive the members' replies.

    ``is_loss`` returns True for an error that shows that a member is lost. Other errors are results of the job.
    """

    def __init__(self, is_loss: Callable[[BaseException], bool], *, in_flight: int = IN_FLIGHT) -> None:
        self._is_loss, self._in_flight = is_loss, in_flight
        self._lock = threading.RLock()
        self._members: list[_Member] = []
        self._waiting: deque[_Job] = deque()
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._closed = False
        self._alone_since = time.monotonic()
        self.lost = 0  # number of lost members
        self.resubmitted = 0  # number of jobs that were sent to another member, after a loss or as stragglers

    @property
    def members(self) -> int:
        """Number of members."""
        with self._lock:
            return len(self._members)

    def handles(self) -> list[Any]:
        """Return the handles of all members."""
        with self._lock:
            return [m.handle for m in self._members]

    def add(self, handle: Any) -> None:
        """Add a member, which then receives jobs."""
        with self._lock:
            self._members.append(_Member(handle))
            self._fill()

    def submit(self, call: Callable[[Any], Pending]) -> Future[Any]:
        """Call ``call(handle)`` with the handle of some member, and return the future result.

        The future may raise JobLost.
        """
        job = _Job(call)
        with self._lock:
            if self._closed:
                raise RuntimeError("the fleet is closed")
            self._waiting.append(job)
            self._fill()
        return job.result

    def check_jobs(self, patience: float) -> None:
        """Send slow jobs to a second, idle member. Fail all waiting jobs after ``patience`` seconds without members.

        This function must be called regularly.
        """
        now = time.monotonic()
        given_up: list[_Job] = []
        with self._lock:
            if self._members:
                self._alone_since = now
            elif now - self._alone_since > patience:
                given_up, self._waiting = list(self._waiting), deque()
            limit = max(LEAST_STRAGGLING, STRAGGLING * statistics.median(self._seconds or [0.0]))
            idle = [m for m in self._members if not m.jobs]
            for member in self._members:
                if idle and member.jobs and member.jobs[0].copies == 1 and now - member.since > limit:
                    self.resubmitted += 1
                    self._give(idle.pop(), member.jobs[0])
        for job in given_up:
            job.result.set_exception(JobLost(f"the cluster has had no worker for {patience:g} s"))

    def close(self) -> None:
        """Accept no more jobs, and cancel unfinished jobs."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = list(self._waiting), deque()
            waiting += [job for m in self._members for job in m.jobs]
            self._members = []
        for job in waiting:
            job.result.cancel()

    def _fill(self) -> None:
        while self._waiting and self._members:
            member = min(self._members, key=lambda m: len(m.jobs))
            if len(member.jobs) >= self._in_flight:
                return
            self._give(member, self._waiting.popleft())

    def _give(self, member: _Member, job: _Job) -> None:
        if not member.jobs:
            member.since = time.monotonic()
        member.jobs.append(job)
        job.copies += 1
        try:
            answer = job.call(member.handle).future()
        except Exception as error:  # the member has already ended, or cannot be reached
            answer = Future()
            answer.set_exception(error)
        answer.add_done_callback(partial(self._done, member, job))

    def _done(self, member: _Member, job: _Job, answer: Future[Any]) -> None:
        error = answer.exception()
        with self._lock:
            under_way = bool(member.jobs) and member.jobs[0] is job
            lost = error is not None and self._is_loss(error)
            if lost and member in self._members:
                self._members.remove(member)
                self._alone_since = time.monotonic()
                self.lost += 1
                member.suspect = member.jobs[0] if member.jobs else None
            if job in member.jobs:
                member.jobs.remove(job)
            job.copies -= 1
            now = time.monotonic()
            if lost:
                suspect = job is member.suspect
                job.losses += suspect
                if job.result.done() or job.copies or self._closed:
                    finish = None
                elif job.losses < MOST_LOSSES:
                    # The running job may have caused the loss of the member, so this job goes to the end of the queue.
                    # The member's other jobs go to the front.
                    (self._waiting.append if suspect else self._waiting.appendleft)(job)
                    self.resubmitted += 1
                    finish = None
                else:
                    last = str(error).splitlines()[0]
                    why = f"{job.losses} workers of the cluster were lost while they ran this job; last error: {last}"
                    finish = partial(job.result.set_exception, WorkersLost(why))
            else:
                if under_way:
                    self._seconds.append(now - member.since)
                finish = None
                if not job.result.done():
                    setter = job.result.set_exception if error is not None else job.result.set_result
                    finish = partial(setter, error if error is not None else answer.result())
            member.since = now
            self._fill()
        if finish is not None:
            finish()
