"""A supervised child process that answers requests: one JSON document per line, over pipes.

Whatever may hang, crash or poison its process (a compiler, a GPU) runs in a ``Worker``. A worker that overruns its
time is killed for real, with every process of its group, and the next request starts a new one. The child's standard
output is moved away before the module is imported, so prints of libraries and handlers land on standard error and
cannot garble the answers. When the parent goes, in whatever way, the child's input ends and the child ends its group.

A worker module calls ``serve(handle)`` when it runs as ``__main__``.
"""

from __future__ import annotations

import json
import os
import queue
import runpy
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from measurements.foreign_text import harmless, one_line

_BOOTSTRAP = (
    "import sys; sys.path.extend(sys.argv[2:]); from measurements.worker import run_child; run_child(sys.argv[1])"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent)
_STDERR_TAIL = 8192
_ANSWER_LIMIT = 1 << 28  # bytes: whatever is longer is no answer
_END_GRACE = 0.5  # seconds that a dying child gets to report its own exit status
_PIPE_READS = 16  # of 64 KiB: the largest pipe that Linux gives by default

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class WorkerError(Exception):
    """A request that got no answer."""


class WorkerTimeout(WorkerError):
    """The time limit passed; the worker and its process group have been killed."""


class WorkerDied(WorkerError):
    """The process ended or stopped making sense. ``returncode`` is negative for a signal; ``stderr`` is its end."""

    def __init__(self, message: str, returncode: int | None, stderr: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


class WorkerFailed(WorkerError):
    """The handler raised; the worker is alive and takes the next request."""


class WorkerClosed(WorkerError):
    """The worker has been closed, possibly while it was answering."""


class Worker:
    """One child process running ``module``, used by one thread at a time; ``kill`` and ``close`` may come from any.

    ``env`` adds to the parent's environment, ``python_path`` to the child's ``sys.path``. ``memory_limit`` is in bytes
    of address space (Linux). ``start_timeout`` seconds are for imports, and do not count as time of a request.
    """

    def __init__(
        self,
        module: str,
        *,
        env: Mapping[str, str] | None = None,
        python_path: Sequence[str] = (),
        memory_limit: int | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.module = module
        self.starts = 0
        self._env = dict(env or {})
        self._python_path = (*python_path, _PACKAGE_ROOT)
        self._memory_limit = memory_limit
        self._start_timeout = start_timeout
        self._using = threading.RLock()  # held while the pipes are in use
        self._lock = threading.Lock()  # held while the process is started, killed or collected: guards its id
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: _Connection | None = None
        self._next_id = 0

    @property
    def pid(self) -> int | None:
        """The process id of the child, None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> None:
        """Start the child if none lives, and wait until it takes requests. Raises WorkerTimeout, WorkerDied."""
        with self._using:
            if self._process is not None and not _has_ended(self._process.pid):
                return
            self._reap()
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                raise WorkerClosed(f"{self.module} is closed")
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOTSTRAP, self.module, *self._python_path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._env},
                bufsize=0,
                start_new_session=True,  # a group of its own: killed as a whole, and deaf to the terminal's Ctrl-C
            )
            self._process = process
            self.starts += 1
        self._connection = _Connection(process)
        self._limit_memory(process.pid)
        hello = self._exchange(b"", self._start_timeout, "did not start")
        if hello != {"ready": True}:
            raise self._died("greeted with something else than the protocol's first line")

    def request(self, payload: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The handler's answer to ``payload``, within ``timeout`` seconds; starts the child if there is none.

        Raises WorkerTimeout, WorkerDied, WorkerFailed, WorkerClosed. After the first two the child is gone.
        """
        with self._using:
            self.start()
            self._next_id += 1
            line = json.dumps({"id": self._next_id, "payload": payload}, separators=(",", ":")).encode() + b"\n"
            answer = self._exchange(line, timeout, "gave no answer")
            if answer.get("id") != self._next_id:
                raise self._died("answered a question that was not asked")
            if "error" in answer:
                raise WorkerFailed(one_line(str(answer["error"])))
            result = answer.get("result")
            if not isinstance(result, dict):
                raise self._died("answered something that is not a JSON object")
            return result

    def stop(self) -> None:
        """Kill the child and its process group, and collect it; the next request starts a new one."""
        with self._using:
            self._reap()

    def kill(self) -> None:
        """Kill the child and its process group now; a request under way raises WorkerDied."""
        with self._lock:
            if self._process is not None:
                _kill_group(self._process.pid)

    def close(self) -> None:
        """End the child for good. A request under way in another thread raises WorkerClosed."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                _kill_group(self._process.pid)
        with self._using:  # a request under way sees the end of its child and lets go
            self._reap()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _limit_memory(self, pid: int) -> None:
        if self._memory_limit is not None and sys.platform == "linux":
            import resource

            _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
            limit = self._memory_limit if hard == resource.RLIM_INFINITY else min(self._memory_limit, hard)
            resource.prlimit(pid, resource.RLIMIT_AS, (limit, hard))

    def _exchange(self, line: bytes, timeout: float, complaint: str) -> dict[str, Any]:
        connection = self._connection
        if connection is None:
            raise WorkerClosed(f"{self.module} is closed")
        try:
            text = connection.exchange(line, time.monotonic() + timeout)
        except TimeoutError:
            self._reap()
            if self._closed:
                raise WorkerClosed(f"{self.module} was closed") from None
            raise WorkerTimeout(f"{self.module} {complaint} within {timeout:g} s") from None
        except ValueError as error:
            raise self._died(str(error)) from None
        except BaseException:  # Ctrl-C: the answer would meet the next question
            self._reap()
            raise
        if text is None:
            raise self._died(None)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._died("answered something that is not a JSON object")
        return answer

    def _died(self, complaint: str | None) -> WorkerError:
        """Ends what is left of the child and says how it went; ``complaint`` is what it did wrong, None: it ended."""
        process, connection = self._process, self._connection
        tail = ""
        if process is not None and connection is not None:
            if complaint is None:
                _await_exit(process.pid, _END_GRACE)
                if not _has_ended(process.pid):
                    complaint = "closed its output and lived on"
            _kill_group(process.pid)  # so that its words have an end
            tail = connection.stderr_tail()
        returncode = self._reap()
        if self._closed:
            return WorkerClosed(f"{self.module} was closed")
        what = complaint or _describe_exit(returncode)
        last = tail.strip().splitlines()[-1:] or [""]
        return WorkerDied(f"{self.module} {what}" + (f": {one_line(last[0])}" if last[0] else ""), returncode, tail)

    def _reap(self) -> int | None:
        """Kill the group, collect the exit status and close the pipes. Harmless when there is no child."""
        with self._lock:
            process, connection = self._process, self._connection
            self._process = self._connection = None
            if process is None:
                return None
            _kill_group(process.pid)
            if connection is not None:
                connection.close()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            try:
                return process.wait(timeout=30.0)
            except subprocess.TimeoutExpired:
                return None  # stuck inside the kernel (a GPU driver): it dies when the driver lets go


class _Connection:
    """The three pipes of a child, without blocking. Standard error is drained so that a talkative child never waits."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._stdin, self._stdout, self._stderr = _fd(process.stdin), _fd(process.stdout), _fd(process.stderr)
        self._selector = selectors.DefaultSelector()
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        for fd in (self._stdout, self._stderr):
            self._selector.register(fd, selectors.EVENT_READ)
        # A child of the child may keep the pipes open: only this tells then that there will be no answer.
        self._ended = _pidfd(process.pid)
        if self._ended is not None:
            self._selector.register(self._ended, selectors.EVENT_READ)
        self._received = bytearray()
        self._tail = b""

    def exchange(self, line: bytes, deadline: float) -> bytes | None:
        """Send ``line`` and return the next line of the child, None if it ended or closed its output.

        Raises TimeoutError, and ValueError for an endless line.
        """
        unsent = memoryview(line)
        if unsent:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        try:
            while True:
                end = self._received.find(b"\n")
                if end >= 0:
                    text = bytes(self._received[:end])
                    del self._received[: end + 1]
                    return text
                if len(self._received) > _ANSWER_LIMIT:
                    raise ValueError(f"wrote {_ANSWER_LIMIT} bytes without an end of line")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                ready = {key.fd for key, _ in self._selector.select(remaining)}
                if self._stdin in ready:
                    unsent = self._send(unsent)
                if self._stderr in ready:
                    self._read_stderr()
                if self._stdout in ready:
                    if not self._receive():
                        return None
                elif self._ended in ready:
                    return None
        finally:
            if self._stdin in self._selector.get_map():
                self._selector.unregister(self._stdin)

    def stderr_tail(self) -> str:
        """The last of what the child wrote to standard error: no more than the pipe holds, if others still write."""
        for _ in range(_PIPE_READS):
            if self._stderr not in self._selector.get_map() or not self._read_stderr():
                break
        return harmless(self._tail.decode(errors="replace"))

    def close(self) -> None:
        self._selector.close()
        if self._ended is not None:
            os.close(self._ended)

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            unsent = unsent[os.write(self._stdin, unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            unsent = unsent[:0]  # the end of its output tells the rest
        if not unsent:
            self._selector.unregister(self._stdin)
        return unsent

    def _receive(self) -> bool:
        try:
            chunk = os.read(self._stdout, 1 << 16)
        except BlockingIOError:
            return True
        self._received += chunk
        return bool(chunk)

    def _read_stderr(self) -> bool:
        try:
            chunk = os.read(self._stderr, 1 << 16)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(self._stderr)
        self._tail = (self._tail + chunk)[-_STDERR_TAIL:]
        return bool(chunk)


def _fd(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise RuntimeError("the child was started without pipes")
    return pipe.fileno()


def _pidfd(pid: int) -> int | None:
    """A descriptor that can be read once the process has ended, where the system has that (Linux 5.3)."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _kill_group(pid: int) -> None:
    """Kill the group that ``pid`` leads; the leader must not be collected yet, so that the id is still its own."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Between fork and setsid the group does not exist yet.
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _await_exit(pid: int, seconds: float) -> None:
    """Wait until the child has ended on its own, without collecting it, for at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _has_ended(pid):
        time.sleep(0.002)


def _has_ended(pid: int) -> bool:
    """True for a child that is a zombie: it keeps its id until it is collected."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def _describe_exit(returncode: int | None) -> str:
    if returncode is None:
        return "cannot be killed"
    if returncode < 0:
        try:
            return f"was killed by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"was killed by signal {-returncode}"
    return f"ended with exit status {returncode}"


# ---- the child's side ----

_claimed: tuple[int, int] | None = None  # descriptors of requests and answers, once the standard ones are moved away


def run_child(module: str) -> None:
    """Run ``module`` as ``__main__`` with requests and answers on private descriptors. What the bootstrap calls."""
    _claim_streams()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def serve(handle: Handler) -> None:
    """Answer requests with ``handle`` until the parent ends the worker; does not return.

    An exception of ``handle``, MemoryError included, is reported to the parent, and serving goes on.
    """
    requests_fd, answers_fd = _claim_streams()
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with os.fdopen(requests_fd, "rb") as source:
            for line in source:
                requests.put(line)
            _end_group()

    def send(document: dict[str, Any]) -> None:
        text = memoryview(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        while text:
            text = text[os.write(answers_fd, text) :]

    # A thread of its own, so that the end of the parent is seen also while a handler works or hangs.
    threading.Thread(target=read, daemon=True).start()
    send({"ready": True})
    while True:
        message = json.loads(requests.get())
        try:
            send({"id": message["id"], "result": handle(message["payload"])})
        except Exception as error:
            send({"id": message["id"], "error": f"{type(error).__name__}: {error}"})


def _claim_streams() -> tuple[int, int]:
    """Move standard input and output to private descriptors; reads then see nothing, prints go to standard error."""
    global _claimed
    if _claimed is None:
        _claimed = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
    return _claimed


def _end_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
