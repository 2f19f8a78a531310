"""Compile CUDA C++ to PTX with NVRTC in a separate process, because a source may make NVRTC hang or crash.

Each compilation has a time limit. A compiler process is reused for later compilations; concurrent compilations use
further processes. All compiler processes end with the current process.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from measurements.compiler.limits import NO_LIMITS, CompilerLimitExceeded, request_within
from measurements.compiler.nvrtc import PTX_OPTIONS, PtxOutput, loaded_version, toolchain_version
from measurements.compiler.other_compiler import COMPILER_MODULE, MEMORY_LIMIT, OtherCompiler
from measurements.files.text import harmless
from measurements.workers.messages import Message
from measurements.workers.transport import WorkerDied, WorkerFailed
from measurements.workers.worker import Worker
from search_spaces.launches.generated_kernel import CompileLimits
from search_spaces.launches.headers import Headers

COMPILE_SECONDS = 60.0  # limit of CPU seconds for one compilation


class CompilerStopped(Exception):
    """NVRTC did not finish. ``status`` is compile_timeout, or compile_error if it crashed or ran out of memory.

    The message is one line.
    """

    def __init__(self, status: Literal["compile_timeout", "compile_error"], reason: str) -> None:
        super().__init__(reason)
        self.status: Literal["compile_timeout", "compile_error"] = status


def compile_to_ptx(
    source: str,
    entry: str,
    arch: str,
    headers: Headers,
    options: Sequence[str] = PTX_OPTIONS,
    then: Sequence[str] = (),
    limits: CompileLimits = NO_LIMITS,
) -> PtxOutput:
    """Compile CUDA C++ to PTX in another process, within COMPILE_SECONDS or the time limit of ``limits``.

    Args:
        source: Source text.
        entry: As in ``nvrtc.compile_to_ptx``.
        arch: For example "compute_80".
        headers: Texts by the names in the includes.
        options: Options of NVRTC, without the architecture.
        then: Further entries that must exist.
        limits: Time and memory limits.

    Returns:
        As ``nvrtc.compile_to_ptx``.

    Raises:
        CompilerStopped: The compiler exceeded a limit, or its process died.
        NvrtcMissing: NVRTC is not installed.
    """
    ptx_toolchain()
    request = {
        "ptx": True,
        "source": source,
        "entry": entry,
        "then": list(then),
        "arch": arch,
        "headers": headers.digest,
        "options": list(options),
        "folder": os.getcwd(),  # include folders in the options are relative to this folder
    }
    with _compilers.borrowed() as worker:
        answer = _answer(worker, request, headers, limits)
    text = None if answer["text"] is None else bytes(answer.blobs[answer["text"]]).decode()
    return PtxOutput(text, str(answer["entry"]), harmless(str(answer["log"])), float(answer["seconds"]))


def ptx_toolchain() -> str:
    """Return name and version of the compiler that ``compile_to_ptx`` uses, such as "nvrtc 13.0.88"."""
    other = _compilers.other
    return toolchain_version() if other is None else other.toolchain


@contextmanager
def compiled_elsewhere(other: OtherCompiler) -> Iterator[None]:
    """Compile all PTX of this process with the NVRTC of another environment, within the context."""
    global _compilers
    before, _compilers = _compilers, _Compilers(other)
    try:
        yield
    finally:
        _compilers.close()
        _compilers = before


def compiler_pids() -> tuple[int, ...]:
    """Return the process ids of the idle compilers."""
    return _compilers.pids


def _answer(worker: Worker, request: dict[str, object], headers: Headers, limits: CompileLimits) -> Message:
    for last_try in (False, True):
        try:
            return request_within(limits, worker, request, {headers.digest: headers.encoded}, COMPILE_SECONDS)
        except CompilerLimitExceeded as exceeded:
            raise CompilerStopped(exceeded.status, str(exceeded)) from None
        except WorkerFailed as error:
            loaded_version()  # raises an error if NVRTC itself does not work; otherwise the source is the cause
            raise CompilerStopped("compile_error", f"the compiler failed: {error}") from None
        except WorkerDied as error:
            # The first crash may have an external cause, such as the out-of-memory killer. A second crash is attributed
            # to the source.
            if last_try:
                loaded_version()
                raise CompilerStopped("compile_error", f"the compiler crashed: {error}") from None
    raise AssertionError("unreachable")


class _Compilers:
    def __init__(self, other: OtherCompiler | None = None) -> None:
        self.other = other
        self._lock = threading.Lock()
        self._idle: list[Worker] = []

    @contextmanager
    def borrowed(self) -> Iterator[Worker]:
        with self._lock:
            worker = self._idle.pop() if self._idle else self._started()
        try:
            yield worker
        finally:
            with self._lock:
                self._idle.append(worker)

    def _started(self) -> Worker:
        python = sys.executable if self.other is None else self.other.python
        return Worker(COMPILER_MODULE, python=python, memory_limit=MEMORY_LIMIT)

    @property
    def pids(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(w.pid for w in self._idle if w.pid is not None)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


_compilers = _Compilers()
atexit.register(lambda: _compilers.close())
