"""A supervised child process that answers requests over pipes.

Whatever may hang, crash or poison its process (a compiler, a GPU) runs in a ``Worker``. A worker that overruns its
time is killed with every process that it started, and the next request starts a new one. The parent then removes the
temporary folders that they worked in (``measurements.files.work_folders``). Killed are its group, and on
Linux also what has left the group, known by a mark in the environment that it inherited; a process that wipes its
environment is not found. The child's standard output is moved away before the module is imported, so prints of
libraries and handlers go to standard error and cannot corrupt the answers. When the parent ends, however it ends, the
child sees the end of its input and ends its group.

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
# In another environment our packages come from here, and everything else from there: also where that has its own ones.
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
STORE_BYTES = 1 << 30  # of blobs, kept by a child
_READ = 1 << 18  # bytes
_MARK = "AUTOSCHED_WORKER"  # in the environment of a child and of all that it starts
_END_GRACE = 0.5  # seconds that a dying child gets to report its own exit status

Handler = Callable[[Message], Mapping[str, Any]]


class Worker:
    """Own one child process, used by one thread at a time; ``kill`` and ``close`` may come from any.

    Args:
        module: What the child runs.
        env: Adds to the parent's environment.
        python_path: Adds to the child's ``sys.path``.
        python: The interpreter; that of another environment has its own packages, and autosched's from here.
        memory_limit: Bytes of address space (Linux); None for no limit.
        start_timeout: Seconds for imports, which do not count as time of a request.
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
        self._using = threading.RLock()  # held while the pipes are in use
        self._lock = threading.Lock()  # held while the process is started, killed or collected: guards its id
        self._closed = False
        self._working = False  # on a request, so that it may have temporary folders
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the child, None while there is none."""
        process = self._process
        return None if process is None else process.pid

    @property
    def _bootstrap(self) -> str:
        return _BOOTSTRAP if self._python == sys.executable else _BOOTSTRAP_ELSEWHERE

    def start(self) -> None:
        """Start the child if none is running, and wait until it takes requests. Raises WorkerTimeout, WorkerDied."""
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
                start_new_session=True,  # a group of its own: killed as a whole, and out of reach of Ctrl-C
            )
            self._process = process
            self.starts += 1
        channel = self._channel = Channel(_fd(process.stdout), _fd(process.stdin), _fd(process.stderr), process.pid)
        self._limit_memory(process.pid)
        hello = self._exchange(channel.recv, self._start_timeout, "did not start")
        if hello != {"ready": True}:
            raise self._died("greeted with something else than the protocol's first line")

    def request(self, payload: Mapping[str, Any], timeout: float, blobs: Mapping[str, Buffer] = NO_BLOBS) -> Message:
        """As the contract says."""
        with self._using:
            self.start()
            channel = self._channel
            if channel is None:
                raise WorkerClosed(f"{self.module} is closed")
            self._working = True
            answer = self._exchange(
                lambda deadline: channel.request(payload, blobs, deadline), timeout, "gave no answer"
            )
            self._working = False
            if "error" in answer:
                raise WorkerFailed(one_line(str(answer["error"])))
            result = answer.get("result")
            if not isinstance(result, dict):
                raise self._died("answered something that is not a JSON object")
            return Message(result, answer.blobs)

    def stop(self) -> None:
        """Kill the child and all that it started, and collect it; the next request starts a new one."""
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
        with self._using:  # a request under way sees its child end and returns
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

    def _exchange(self, what: Callable[[float], Message], timeout: float, complaint: str) -> Message:
        try:
            return what(time.monotonic() + timeout)
        except TimeoutError:
            self._reap()
            if self._closed:
                raise WorkerClosed(f"{self.module} was closed") from None
            raise WorkerTimeout(f"{self.module} {complaint} within {timeout:g} s") from None
        except EOFError:
            raise self._died(None) from None
        except ValueError as error:
            raise self._died(str(error)) from None
        except BaseException:  # Ctrl-C: the answer would be taken for that of the next question
            self._reap()
            raise

    def _died(self, complaint: str | None) -> WorkerError:
        """End what is left of the child and says how it ended; ``complaint`` is what it did wrong, None: it exited."""
        process, channel = self._process, self._channel
        tail = ""
        if process is not None and channel is not None:
            if complaint is None:
                _await_exit(process.pid, _END_GRACE)
                if not _has_ended(process.pid):
                    complaint = "closed its output but did not exit"
            _kill_group(process.pid)  # so that its output ends
            tail = channel.stderr_tail()
        returncode = self._reap()
        if self._closed:
            return WorkerClosed(f"{self.module} was closed")
        what = complaint or _describe_exit(returncode)
        last = tail.strip().splitlines()[-1:] or [""]
        return WorkerDied(f"{self.module} {what}" + (f": {one_line(last[0])}" if last[0] else ""), returncode, tail)

    def _reap(self) -> int | None:
        """Kill the group, collect the exit status and close the pipes. Harmless when there is no child."""
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
                return None  # stuck inside the kernel (a GPU driver): it dies when the driver returns
            if self._working:
                from measurements.files.work_folders import remove_temporary_of_killed  # most workers need none

                self._working = False
                remove_temporary_of_killed()
            return returncode


def _fd(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise RuntimeError("the child was started without pipes")
    return pipe.fileno()


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


def _kill_marked(mark: str) -> None:
    """Kill what a child has started and what has left its group since: on Linux, whose /proc shows environments."""
    marked = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if marked in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _await_exit(pid: int, seconds: float) -> None:
    """Wait until the child has ended on its own, without collecting it, for at most ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _has_ended(pid):
        time.sleep(0.002)


def _has_ended(pid: int) -> bool:
    """Return True for a child that is a zombie: it keeps its id until it is collected."""
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


def serve(handle: Handler, store_bytes: int = STORE_BYTES) -> None:
    """Answer requests with ``handle`` until the parent ends the worker; does not return.

    ``store_bytes`` of blobs are kept. An exception of ``handle``, MemoryError included, is reported to the parent, and
    serving goes on.
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
        except ValueError as error:  # the parent's message is malformed
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        _end_group()

    def send(header: Mapping[str, Any], blobs: Mapping[str, Buffer] = NO_BLOBS) -> None:
        for piece in frame(header, blobs):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(answers_fd, rest) :]

    # A thread of its own, so that the end of the parent is seen also while a handler works or hangs.
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
    """Return a request with all blobs that it needs, those asked for that are not here.

    Args:
        message: As it came.
        store: Keeps blobs from request to request.
        recv: Waits for the next message.
        send: Answers, to ask for blobs.

    Raises:
        ValueError: Bytes whose digest differs from the announced one.
        EOFError: The other end is gone.
    """
    store.add(message)
    needs = message.get("needs", [])
    missing = store.missing(needs)
    if missing:
        send({"id": message["id"], "missing": missing})
        store.add(recv())
    return Message(message["payload"], store.take(needs))


def _claim_streams() -> tuple[int, int]:
    """Move standard input and output to private descriptors; reads then get nothing, prints go to standard error."""
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
