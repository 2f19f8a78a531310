"""Supervisor of one GPU worker: start and check the worker, send it requests, and replace it after a failure.

After every start of a worker, a known-good kernel runs before the next candidate. The supervisor does not depend on
CUDA: it works with any worker that serves ``requests``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from measurements.files.text import one_line
from measurements.runners.base import RunnerStopped
from measurements.runners.cuda.requests import Health, to_message
from measurements.trials.measurement import Status
from measurements.workers.messages import Message
from measurements.workers.transport import Transport, WorkerClosed, WorkerDied, WorkerError, WorkerFailed, WorkerTimeout

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class TimeLimits:
    """Time limits in seconds for acquiring and checking the GPU, for preparing a problem's data, and for one candidate.

    ``retry_pauses`` are the seconds between attempts to acquire a GPU that does not respond.
    """

    health: float = 60.0
    prepare: float = 300.0
    candidate: float = 30.0
    retry_pauses: tuple[float, ...] = (1.0, 5.0)


@dataclass(frozen=True)
class Outcome:
    """Result of a request: ``answer`` is the worker's reply if its status is ok, otherwise ``reason`` is the error."""

    status: Status
    reason: str
    answer: Answer


class Supervisor:
    """Owner of ``worker``. Only one thread may use it. ``opening`` is the request that acquires the GPU.

    ``info`` is the worker's reply to ``opening`` when the GPU was first healthy. ``restarts`` counts later restarts of
    the worker.
    """

    def __init__(self, worker: Transport, opening: Message, limits: TimeLimits) -> None:
        self._worker = worker
        self._opening = opening
        self._limits = limits
        self._healthy_start = 0
        self._prepared: dict[str, Outcome] = {}
        self.info: Answer = {}

    @property
    def restarts(self) -> int:
        """Number of times that the worker was restarted."""
        return max(self._worker.starts - 1, 0)

    def ensure_healthy(self) -> Answer:
        """Start the worker if it is not running, and check the GPU. Raises RunnerStopped, WorkerClosed."""
        failures: list[str] = []
        for pause in (*self._limits.retry_pauses, None):
            try:
                self._worker.start()
                if self._worker.starts != self._healthy_start:
                    self._prepared.clear()
                    self.info = self._ask(self._opening, self._limits.health)
                    self._ask(to_message(Health()), self._limits.health)
                    self._healthy_start = self._worker.starts
                return self.info
            except WorkerClosed:
                raise
            except WorkerError as error:
                failures.append(str(error))
                self._worker.stop()
                if pause is not None:
                    time.sleep(pause)
        gpu = self._opening["gpu"]
        raise RunnerStopped(f"GPU {gpu} does not respond after {len(failures)} attempts: {failures[-1]}")

    def run(
        self, data: str, prepare: Callable[[Answer | None], Message], request: Message, limit: float | None = None
    ) -> Outcome:
        """Prepare the data of a request if necessary, send the request to the worker, and return its outcome.

        If the worker dies, the request is repeated once after a health check, because the request may not be the cause.
        If the worker dies again, the outcome is a crash.

        Args:
            data: Name of the data.
            prepare: Returns the request that prepares the data. The function is called with None, and again with the
                worker's reply if the reply names missing arrays.
            request: Request to send.
            limit: Time limit in seconds; None for the usual limit of a candidate.

        Returns:
            The outcome.

        Raises:
            RunnerStopped: The GPU can no longer be used.
            WorkerClosed: The supervisor was closed meanwhile. Errors of ``prepare`` are also raised.
        """
        seconds = self._limits.candidate if limit is None else limit
        for last_try in (False, True):
            self.ensure_healthy()
            try:
                ready = self._ensure_prepared(data, prepare)
                if ready.status is not Status.OK:
                    return ready
                answer = self._ask(request, seconds)
                break
            except WorkerClosed:
                raise
            except WorkerTimeout:
                return Outcome(Status.TIMEOUT, f"not measured within {seconds:g} s", {})
            except WorkerDied as error:
                if last_try:
                    return Outcome(Status.CRASHED, str(error), {})
            except WorkerFailed as error:
                self._worker.stop()  # stopped, because the worker's state is unknown after an unexpected exception
                return Outcome(Status.CRASHED, f"the GPU worker failed: {error}", {})
        if answer.get("poisoned"):
            self._worker.stop()
        return self._outcome_of(answer)

    def close(self) -> None:
        """End the worker. May be called from any thread."""
        self._worker.close()

    def _ensure_prepared(self, data: str, prepare: Callable[[Answer | None], Message]) -> Outcome:
        known = self._prepared.get(data)
        if known is not None:
            return known
        self._prepared.clear()  # the worker holds the data of only one problem at a time
        try:
            answer = self._ask(prepare(None), self._limits.prepare)
            if "missing" in answer:
                answer = self._ask(prepare(answer), self._limits.prepare)
        except WorkerTimeout:
            return Outcome(Status.TIMEOUT, f"the inputs were not ready within {self._limits.prepare:g} s", {})
        if "missing" in answer:
            raise WorkerFailed(f"the worker reports {answer['missing']} as missing after they were sent")
        outcome = self._outcome_of({"status": Status.OK.value, **answer})
        self._prepared[data] = outcome
        return outcome

    def _ask(self, request: Message, limit: float) -> Message:
        return self._worker.request(request, limit, request.blobs)

    def _outcome_of(self, answer: Answer) -> Outcome:
        """Return the outcome in ``answer``. If the reply is malformed, stop the worker and return a crash."""
        try:
            _check({"seconds": [1.0], **answer})
            entrants = answer.get("entrants", [])
            for entrant in entrants:
                _check(entrant, timed=bool(entrant["seconds"]))
            if len({len(entrant["seconds"]) for entrant in entrants} - {0}) > 1:
                raise ValueError("each entrant needs a time in every round")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            self._worker.stop()
            return Outcome(Status.CRASHED, f"the GPU worker's reply is malformed: {str(answer)[:200]}", {})
        return Outcome(Status(answer["status"]), one_line(answer.get("reason", "")), answer)


def _check(answer: Answer, timed: bool = True) -> None:
    """Raise an error if a status, reason, time, error, clock or power in ``answer`` is invalid.

    If ``timed``, an ok reply must have times.
    """
    status, times = Status(answer["status"]), answer["seconds"]
    if status is Status.OK and timed and not (times and all(float(t) > 0 and math.isfinite(t) for t in times)):
        raise ValueError("the times are invalid")
    for name in ("error", "clock_mhz", "watts"):
        float(answer.get(name) or 0.0)
    reason = answer.get("reason", "")
    if not isinstance(reason, str) or (status is not Status.OK and not reason.strip()):
        raise ValueError("a failure needs a reason")
