"""Functions of the user's that give references, judge outputs, or fill inputs: called so that they can end nothing.

One that a file names runs in a process of its own: one that exits, crashes or hangs has not answered. One that was
given from Python runs here.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from autosched.user_kernels.document import KernelFileError
from autosched.user_kernels.function_worker import answer
from autosched.user_kernels.kernel_file import UserFunction
from measurements.files.text import one_line
from measurements.workers.messages import digest_of
from measurements.workers.transport import WorkerDied, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker

SECONDS = 600.0  # that one call may take


def call(function: UserFunction, told: str, numbers: Mapping[str, int | float], arrays: Mapping[str, Any]) -> Any:
    """Call a user's function with those of ``numbers`` and ``arrays`` that its parameters name.

    Args:
        function: In a file, which a process of its own runs, or given as an object.
        told: What the error begins with.
        numbers: By name.
        arrays: By name.

    Returns:
        What it returns.

    Raises:
        KernelFileError: One line: it fails, asks for another name, or does not answer within ``SECONDS``.
    """
    if function.given is not None:
        found: Mapping[str, Any] = answer(function.given, {**numbers, **arrays})
    else:
        found = _asked(function, told, numbers, arrays)
    if "error" in found:
        at = f" at line {found['line']}" if found.get("line") else ""
        raise KernelFileError(f"{told} fails{at}: {one_line(str(found['error']))}")
    if "unknown" in found:
        raise KernelFileError(f"{told} asks for {found['unknown']}: it can have {', '.join([*numbers, *arrays])}")
    return found["result"]


def _asked(
    function: UserFunction, told: str, numbers: Mapping[str, int | float], arrays: Mapping[str, Any]
) -> Mapping[str, Any]:
    blobs: dict[str, Any] = {}
    sent = {}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        sent[name] = [array.dtype.str, list(array.shape), digest_of(content)]
        blobs[sent[name][2]] = content
    request = {
        "path": function.path,
        "content": function.content,
        "name": function.name,
        "numbers": dict(numbers),
        "arrays": sent,
    }
    worker, lock = _worker()
    with lock:
        try:
            reply = worker.request(request, SECONDS, blobs)
        except WorkerTimeout:
            raise KernelFileError(f"{told} did not answer within {SECONDS:g} s") from None
        except (WorkerDied, WorkerFailed) as error:
            raise KernelFileError(f"{told} ended its process without an answer: {one_line(str(error))}") from None
    if "error" in reply or "unknown" in reply:
        return reply
    if "plain" in reply:
        return {"result": reply["plain"]}
    found = {
        name: np.array(None) if a is None else np.frombuffer(bytes(reply.blobs[a[2]]), a[0]).reshape(a[1])
        for name, a in reply["arrays"].items()
    }
    return {"result": found if reply["mapping"] else found[""]}


def _memory_limit() -> int | None:
    """Half of what this machine has: a function that takes more fails, and nothing else does."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):  # not on this system
        return None


@cache
def _worker() -> tuple[Worker, threading.Lock]:
    worker = Worker("autosched.user_kernels.function_worker", memory_limit=_memory_limit())
    atexit.register(worker.close)
    return worker, threading.Lock()
