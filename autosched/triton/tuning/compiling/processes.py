"""Worker processes that compile configurations of a Triton function in advance, so that a crash only ends a worker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from autosched.triton.tuning.compiling.candidate import NotLaunched
from autosched.triton.tuning.compiling.worker import NotPortable, import_location, portable
from autosched.triton.tuning.function import TritonFunction
from measurements.trials.measurement import Status
from measurements.workers.resource_watch import WorkerLimitExceeded, request_within
from measurements.workers.transport import WorkerClosed, WorkerDied, WorkerFailed
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named

COMPILE_SECONDS = 120.0  # time limit for compiling one configuration, in CPU seconds
_MODULE = "autosched.triton.tuning.compiling.worker"


class CompileProcesses:
    """Worker processes, each owned by one thread.

    Args:
        function: The kernel, in a file that workers can import.
        device: The GPU. Its fields must equal its row in the device table, because workers use that row.
        workers: Number of processes, at least 1.
        time_limit: CPU seconds for one configuration. A process that exceeds the limit is killed.
    """

    def __init__(
        self, function: TritonFunction, device: Device, workers: int, time_limit: float = COMPILE_SECONDS
    ) -> None:
        """Create the processes.

        Raises NotPortable if workers cannot import the function, and ValueError if ``workers`` is less than 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        if device_named(device.name) != device:
            raise NotPortable(
                f"{device.name}: its fields differ from the device table, which workers would use: give it another name"
            )
        file, name = import_location(function)
        self._request = {
            "file": file,
            "function": name,
            "module": function.jit.fn.__module__,
            "path": [folder for folder in sys.path if folder],
            "digest": function.digest,
            "device": device.name,
        }
        self._function = function
        self._time_limit = time_limit
        self._local = threading.local()
        self._owned: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="triton-compile", initializer=self._own_worker)

    def submit(self, arguments: Mapping[str, Any]) -> Future[NotLaunched | None] | None:
        """Start compiling for these arguments and this configuration. The future's result is a failure, or None.

        Returns None immediately if an argument cannot be passed to another process.
        """
        try:
            computed = {name: portable(value) for name, value in self._function.computed_of(arguments).items()}
        except NotPortable:
            return None
        return self._executor.submit(self._compile, computed)

    def close(self) -> None:
        """End every process. May be called twice."""
        with self._lock:
            self._closed = True
            owned = list(self._owned)
        for worker in owned:
            worker.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _own_worker(self) -> None:
        worker = Worker(_MODULE)
        with self._lock:
            if self._closed:
                worker.close()
            self._owned.append(worker)
        self._local.worker = worker

    def _compile(self, computed: Mapping[str, Any]) -> NotLaunched | None:
        worker: Worker = self._local.worker
        request = {**self._request, "arguments": computed}
        for last_try in (False, True):
            try:
                answer = request_within(worker, request, seconds=self._time_limit)
                break
            except WorkerLimitExceeded as exceeded:
                why = f"Triton did not compile the configuration within {self._time_limit:g} s of CPU time"
                return NotLaunched(
                    Status.COMPILE_TIMEOUT,
                    why if exceeded.limit == "time" else "Triton did not finish compiling the configuration",
                )
            except WorkerFailed as error:
                return NotLaunched(Status.CRASHED, f"Triton's compiler failed: {error}")
            except WorkerClosed as error:
                return NotLaunched(Status.CRASHED, str(error))
            except WorkerDied as error:
                # Try again once, because a single crash may have another cause, such as the out-of-memory killer.
                if last_try:
                    return NotLaunched(Status.CRASHED, f"Triton's compiler crashed: {error}")
        if "status" in answer:
            return NotLaunched(Status(answer["status"]), str(answer["reason"]))
        return None
