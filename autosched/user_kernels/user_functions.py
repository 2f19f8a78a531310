"""Isolated calls of users' Python functions, which compute references, check outputs, or fill inputs.

A function in a file runs in a worker process with limited CPU time and memory. If the function exits, crashes, hangs or
exceeds a limit, only the call fails. A function object from Python runs in this process.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.function_worker import answer
from autosched.user_kernels.kernel_file import UserFunction
from measurements.files.text import one_line
from measurements.workers.messages import Message, digest_of
from measurements.workers.resource_watch import WALL_CLOCK_TIMES, WorkerLimitExceeded, request_within, written_bytes
from measurements.workers.transport import WorkerDied, WorkerFailed
from measurements.workers.worker import Worker

# Default limits of a call. The limits grow with the size of the arrays, which are transferred and processed.
SECONDS = 8.0  # limit in CPU seconds
BYTES_PER_SECOND = 32 << 20  # the limit grows by one CPU second per this many bytes of passed and returned arrays
MEMORY = 384 << 20
ARRAYS_IN_MEMORY = 8  # allowed memory, as a multiple of the bytes of the arrays
_ANSWER = 1 << 16  # maximum bytes of a reply in addition to the expected arrays


def call(
    function: UserFunction,
    label: str,
    numbers: Mapping[str, int | float],
    arrays: Mapping[str, Any],
    elements: int = 0,
) -> Any:
    """Call a user's function with the ``numbers`` and ``arrays`` whose names are parameters of the function.

    Args:
        function: A function object, or a function in a file. The latter runs in a worker process.
        label: Name of the function in error messages.
        numbers: Numbers by name.
        arrays: Arrays by name.
        elements: Expected number of elements. If an array of the result is much larger, only its shape is returned.

    Returns:
        The result of the function.

    Raises:
        KernelFileError: The function fails, has an unknown parameter, or exceeds a limit. The message is one line.
    """
    if function.callable_object is not None:
        results: Mapping[str, Any] = answer(function.callable_object, {**numbers, **arrays})
    else:
        results = _answer_of_worker(function, label, numbers, arrays, elements)
    if "error" in results:
        at = f" at line {results['line']}" if results.get("line") else ""
        raise KernelFileError(f"{label} fails{at}: {one_line(str(results['error']))}")
    if "unknown" in results:
        known = ", ".join([*numbers, *arrays])
        raise KernelFileError(f"{label} has an unknown parameter {results['unknown']}: use {known}")
    return results["result"]


def _answer_of_worker(
    function: UserFunction,
    label: str,
    numbers: Mapping[str, int | float],
    arrays: Mapping[str, Any],
    elements: int,
) -> Mapping[str, Any]:
    blobs: dict[str, Any] = {}
    sent = {}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        sent[name] = [array.dtype.str, list(array.shape), digest_of(content)]
        blobs[sent[name][2]] = content
    answer_bytes = np.dtype(np.longdouble).itemsize * elements + _ANSWER
    of_arrays = sum(array.nbytes for array in arrays.values()) + answer_bytes
    request = {
        "path": function.path,
        "content": function.content,
        "name": function.name,
        "numbers": dict(numbers),
        "arrays": sent,
        "answer_bytes": answer_bytes,
    }
    seconds = function.time_limit or SECONDS + of_arrays / BYTES_PER_SECOND
    memory = function.memory_limit or MEMORY + ARRAYS_IN_MEMORY * of_arrays
    reply = _worker().ask(request, blobs, label, seconds, memory)
    if "error" in reply or "unknown" in reply:
        return reply
    if "plain" in reply:
        return {"result": reply["plain"]}
    results = {name: _array(reply, raw) for name, raw in reply["arrays"].items()}
    return {"result": results if reply["mapping"] else results[""]}


def _array(reply: Message, raw: Any) -> Any:
    """Return an array of the reply. If the reply has only its shape, the array is zeros and takes no memory."""
    if raw is None:
        return np.array(None)
    dtype, shape, blob = raw
    if blob is None:
        return np.broadcast_to(np.zeros((), dtype), shape)
    return np.frombuffer(bytes(reply.blobs[blob]), dtype).reshape(shape)


class _FunctionWorker:
    """Worker process for functions in files. It is replaced once functions have leaked too much memory."""

    def __init__(self) -> None:
        self._worker = Worker(
            "autosched.user_kernels.function_worker", env=_one_thread(), memory_limit=_half_of_the_machine()
        )
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._empty = 0  # memory of the process in bytes before any function has run
        self._failed: tuple[float, Any, str] = (0.0, None, "")  # (time, request, message) of the last failure
        atexit.register(self._worker.close)

    def ask(
        self, request: Mapping[str, Any], blobs: Mapping[str, Any], label: str, seconds: float, most: int
    ) -> Message:
        """Send a request to the worker and return the reply.

        Raises KernelFileError. If the same request failed in another thread while this thread waited, the same error is
        raised without calling the function again.
        """
        started, same = time.monotonic(), (request["path"], request["name"], request["numbers"])
        with self._lock:
            when, label_of_failure, why = self._failed
            if when > started and label_of_failure == same:
                raise KernelFileError(why)
            try:
                return self._answer(request, blobs, label, seconds, most)
            except KernelFileError as error:
                self._failed = (time.monotonic(), same, str(error))
                raise

    def _answer(
        self, request: Mapping[str, Any], blobs: Mapping[str, Any], label: str, seconds: float, most: int
    ) -> Message:
        self._start()
        try:
            return request_within(self._worker, request, blobs, seconds=seconds, memory=self._empty + most)
        except WorkerLimitExceeded as exceeded:
            if exceeded.limit == "memory":
                raise KernelFileError(
                    f"{label} took more than {most / (1 << 30):.2g} GiB of memory: if it needs more, "
                    f"add memory_limit = {_rounded(10 * most / (1 << 30))} (GiB) to its table"
                ) from None
            spent = f"took more than {seconds:.3g} CPU seconds"
            if exceeded.limit == "wall clock":
                spent = f"did not answer within {WALL_CLOCK_TIMES * seconds:.3g} s"
            raise KernelFileError(
                f"{label} {spent}: if it needs more time, add time_limit = {_rounded(10 * seconds)} "
                "(CPU seconds) to its table in the kernel file"
            ) from None
        except (WorkerDied, WorkerFailed) as error:
            raise KernelFileError(f"{label} ended its process without an answer: {one_line(str(error))}") from None

    def _start(self) -> None:
        self._worker.start()
        if self._pid == self._worker.pid and self._pid is not None:
            if written_bytes(self._pid) <= self._empty + MEMORY // 2:
                return
            self._worker.stop()
            self._worker.start()
        self._pid = self._worker.pid
        self._empty = 0 if self._pid is None else written_bytes(self._pid)


def _rounded(number: float) -> str:
    return f"{float(f'{number:.1g}'):g}"


def _one_thread() -> dict[str, str]:
    """Return environment variables that limit BLAS to one thread, unless the user has set a number.

    Several threads would also consume CPU time while they wait for each other. The amount of this time depends on the
    machine.
    """
    return {name: os.environ.get(name, "1") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def _half_of_the_machine() -> int | None:
    """Return the address-space limit of a function: half of this machine's memory; None if that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):  # sysconf has no such value on this system
        return None


@cache
def _worker() -> _FunctionWorker:
    return _FunctionWorker()
