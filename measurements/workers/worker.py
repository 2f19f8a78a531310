"""A supervised child process that answers requests over pipes.

Code that may hang, crash or corrupt its process (a compiler, a GPU) runs in a ``Worker``. A worker that exceeds its
time limit is killed with its descendants, and the next request starts a new one. To kill a worker, the parent kills its
process group. On Linux, the parent also kills descendants that have left the group. These descendants are found by an
environment variable, so descendants that clear their environment are missed. Then the parent removes the temporary
folders of the killed processes (``measurements.files.work_folders``).

Standard output of the child is redirected to standard error before the module is imported, so that output of libraries
and handlers cannot corrupt replies. When the parent ends for any reason, the child reads an end of file from its input,
and kills its own process group.

A worker module calls ``serve(handle)`` when it runs as ``__main__``.
"""

from __future__ import annotations

import os
import queue
import runpy
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from measurements.files.text import one_line
from measurements.workers.channel import Channel
from measurements.workers.messages import BlobStore, Buffer, Message, MessageDecoder, frame
from measurements.workers.transport import NO_BLOBS, WorkerClosed, WorkerDied, WorkerError, WorkerFailed, WorkerTimeout

_BOOTSTRAP = (
    "import sys; sys.path.extend(sys.argv[2:]); "
    "from measurements.workers.worker import run_child; run_child(sys.argv[1])"
)
_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
# With the interpreter of another environment, autosched's packages come from the current environment, even if the other
# environment also has them. All other packages come from the other environment.
_BOOTSTRAP_ELSEWHERE = f"""
import sys
from importlib.machinery import PathFinder
class Ours:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("autosched", "cost_models", "measurements", "search_spaces"):
            return PathFinder.find_spec(name, [{_PACKAGE_ROOT!r}], target)
sys.meta_path.insert(0, Ours)
sys.dont_write_bytecode = True
from measurements.workers.worker import run_child
run_child(sys.argv[1])
"""
STORE_BYTES = 1 << 30  # maximum bytes of blobs that a child caches
_READ = 1 << 18  # bytes
_MARK = "AUTOSCHED_WORKER"  # environment variable that marks a child and its descendants
_END_GRACE = 0.5  # seconds to wait for the exit status of a child that is ending

Handler = Callable[[Message], Mapping[str, Any]]


class Worker:
    """Owner of one child process. One thread at a time may use it, but any thread may call ``kill`` and ``close``.

    Args:
        module: Name of the module that the child runs.
        env: Environment variables to add to the parent's.
        python_path: Folders to add to the child's ``sys.path``.
        python: Python interpreter. If it belongs to another environment, all packages except autosched's come from that
            environment.
        memory_limit: Limit of the address space in bytes (only on Linux); None for no limit.
        start_timeout: Time limit of the start in seconds. The time limit of a request does not include the start.
    """

    def __init__(
        self,
        module: str,
        *,
        env: Mapping[str, str] | None = None,
        python_path: Sequence[str] = (),
        python: str = sys.executable,
        memory_limit: int | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.module = module
        self.starts = 0
        self._mark = uuid.uuid4().hex
        self._env = {**(env or {}), _MARK: self._mark}
        self._python_path = (*python_path, _PACKAGE_ROOT)
        self._python = python
        self._memory_limit = memory_limit
        self._start_timeout = start_timeout
        self._using = threading.RLock()  # held by the thread that uses the pipes
        # held while the process is started, killed or reaped, so that its process id stays valid
        self._lock = threading.Lock()
        self._closed = False
        self._working = False  # True after the first request, because the child may then have temporary folders
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child; None if it is not running."""
        process = self._process
        return None if process is None else process.pid

    @property
    def _bootstrap(self) -> str:
        return _BOOTSTRAP if self._python == sys.executable else _BOOTSTRAP_ELSEWHERE

    def start(self) -> None:
        """Start the child if none is running, and wait until it accepts requests. Raises WorkerTimeout, WorkerDied."""
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
                [self._python, "-P", "-c", self._bootstrap, self.module, *self._python_path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self._env},
                bufsize=0,
                # The child gets a new process group, which can be killed as one and does not receive Ctrl-C.
                start_new_session=True,
            )
            self._process = process
            self.starts += 1
        channel = self._channel = Channel(_fd(process.stdout), _fd(process.stdin), _fd(process.stderr), process.pid)
        self._limit_memory(process.pid)
        hello = self._exchange(channel.recv, self._start_timeout, "did not start")
        if hello != {"ready": True}:
            raise self._died("sent an invalid first line")

    def request(self, payload: Mapping[str, Any], timeout: float, blobs: Mapping[str, Buffer] = NO_BLOBS) -> Message:
        """Send a request and return its reply, as ``Transport.request`` specifies."""
        with self._using:
            self.start()
            channel = self._channel
            if channel is None:
                raise WorkerClosed(f"{self.module} is closed")
            self._working = True
            answer = self._exchange(
                lambda deadline: channel.request(payload, blobs, deadline), timeout, "sent no reply"
            )
            self._working = False
            if "error" in answer:
                raise WorkerFailed(one_line(str(answer["error"])))
            result = answer.get("result")
            if not isinstance(result, dict):
                raise self._died("sent a line that is not a JSON object")
            return Message(result, answer.blobs)

    def stop(self) -> None:
        """Kill the child and its descendants, and reap the child. The next request starts a new child."""
        with self._using:
            self._reap()

    def kill(self) -> None:
        """Kill the child and its process group. A pending request raises WorkerDied."""
        with self._lock:
            if self._process is not None:
                _kill_group(self._process.pid)

    def close(self) -> None:
        """End the child permanently. A pending request in another thread raises WorkerClosed."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                _kill_group(self._process.pid)
        with self._using:  # a pending request now returns, because its child has ended
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

    def _exchange(self, exchange: Callable[[float], Message], timeout: float, complaint: str) -> Message:
        try:
            return exchange(time.monotonic() + timeout)
        except TimeoutError:
            self._reap()
            if self._closed:
                raise WorkerClosed(f"{self.module} was closed") from None
            raise WorkerTimeout(f"{self.module} {complaint} within {timeout:g} s") from None
        except EOFError:
            raise self._died(None) from None
        except ValueError as error:
            raise self._died(str(error)) from None
        except BaseException:  # for example Ctrl-C; a later request must not receive the reply to this one
            self._reap()
            raise

    def _died(self, complaint: str | None) -> WorkerError:
        """Kill the child's remaining processes and return an error. ``complaint`` is None if the child exited."""
        process, channel = self._process, self._channel
        tail = ""
        if process is not None and channel is not None:
            if complaint is None:
                _await_exit(process.pid, _END_GRACE)
                if not _has_ended(process.pid):
                    complaint = "closed its output but did not exit"
            _kill_group(process.pid)  # so that no process keeps stderr open, and it can be read to its end
            tail = channel.stderr_tail()
        returncode = self._reap()
        if self._closed:
            return WorkerClosed(f"{self.module} was closed")
        description = complaint or _describe_exit(returncode)
        last = tail.strip().splitlines()[-1:] or [""]
        return WorkerDied(
            f"{self.module} {description}" + (f": {one_line(last[0])}" if last[0] else ""), returncode, tail
        )

    def _reap(self) -> int | None:
        """Kill the group, reap the child, close the pipes, and return the exit status; None if there is no child."""
        with self._lock:
            process, channel = self._process, self._channel
            self._process = self._channel = None
            if process is None:
                return None
            _kill_group(process.pid)
            _kill_marked(self._mark)
            if channel is not None:
                channel.close()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            try:
                returncode = process.wait(timeout=30.0)
            except subprocess.TimeoutExpired:
                # the child is blocked in the operating system, in a GPU driver, and ends when the driver returns
                return None
            if self._working:
                # A worker that handled no request has no temporary folders, so the search for abandoned folders is
                # skipped.
                from measurements.files.work_folders import remove_temporary_of_killed

                self._working = False
                remove_temporary_of_killed()
            return returncode


def _fd(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise RuntimeError("the child was started without pipes")
    return pipe.fileno()


def _kill_group(pid: int) -> None:
    """Kill the process group of ``pid``, which must not have been reaped yet, so that the id is still valid."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Between fork and setsid, the group does not exist yet, so the process itself is killed.
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _kill_marked(mark: str) -> None:
    """Kill descendants of a child that have left its group. Only on Linux, where /proc has their environments."""
    marked = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if marked in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _await_exit(pid: int, seconds: float) -> None:
    """Wait at most ``seconds`` until the child ends by itself, without reaping the child."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _has_ended(pid):
        time.sleep(0.002)


def _has_ended(pid: int) -> bool:
    """Return True if a child has ended but was not yet reaped, so that its process id is still reserved."""
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


# ---- functions of the child ----

# File descriptors for requests and replies, once the standard streams are redirected.
_claimed: tuple[int, int] | None = None


def run_child(module: str) -> None:
    """Run ``module`` as ``__main__``, with requests and replies on private descriptors. The child starts here."""
    _claim_streams()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def serve(handle: Handler, store_bytes: int = STORE_BYTES) -> None:
    """Answer requests with ``handle`` until the parent ends the worker. This function does not return.

    Up to ``store_bytes`` of blobs are cached. An exception of ``handle``, including MemoryError, is reported to the
    parent, and the worker continues to serve.
    """
    requests_fd, answers_fd = _claim_streams()
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def read() -> None:
        unframer = MessageDecoder()
        try:
            while chunk := os.read(requests_fd, _READ):
                unframer.feed(chunk)
                while (message := unframer.next()) is not None:
                    messages.put(message)
        except ValueError as error:  # the message from the parent is malformed
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        _end_group()

    def send(header: Mapping[str, Any], blobs: Mapping[str, Buffer] = NO_BLOBS) -> None:
        for piece in frame(header, blobs):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(answers_fd, rest) :]

    # A separate thread reads requests, so that it detects the end of the parent even while a handler runs or hangs.
    threading.Thread(target=read, daemon=True).start()
    send({"ready": True})
    store = BlobStore(store_bytes)
    while True:
        message = messages.get()
        number = message["id"]
        try:
            request = received(message, store, messages.get, send)
            answer = handle(request)
            send({"id": number, "result": answer}, answer.blobs if isinstance(answer, Message) else NO_BLOBS)
        except Exception as error:
            send({"id": number, "error": f"{type(error).__name__}: {error}"})


def received(
    message: Message, store: BlobStore, recv: Callable[[], Message], send: Callable[[Mapping[str, Any]], None]
) -> Message:
    """Complete a request with all blobs that it needs. Missing blobs are requested from the parent.

    Args:
        message: The received message.
        store: Cache of blobs.
        recv: Function that waits for the next message and returns it.
        send: Function that sends a message, to request blobs.

    Raises:
        ValueError: A blob does not match its digest.
        EOFError: The other end has closed the channel.
    """
    store.add(message)
    needs = message.get("needs", [])
    missing = store.missing(needs)
    if missing:
        send({"id": message["id"], "missing": missing})
        store.add(recv())
    return Message(message["payload"], store.take(needs))


def _claim_streams() -> tuple[int, int]:
    """Move requests and replies from standard input and output to private descriptors.

    Afterwards standard input is empty, and standard output goes to standard error.
    """
    global _claimed
    if _claimed is None:
        _claimed = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
    return _claimed


def _end_group() -> None:
    if (work_folders := sys.modules.get("measurements.files.work_folders")) is not None:
        work_folders.remove_own_temporary()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
