"""A worker on another machine, over TCP: at the other end is a ``worker_server``, with a child for each connection.

Both ends prove that they know a token, by HMAC-SHA256 over the other's random challenge; the token itself is never
sent. What follows is neither encrypted nor signed: use the loopback interface, or an ssh tunnel.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from measurements.files.text import one_line
from measurements.workers.channel import Channel
from measurements.workers.messages import Buffer, Message
from measurements.workers.transport import NO_BLOBS, WorkerClosed, WorkerDied, WorkerError, WorkerFailed, WorkerTimeout

LEAST_TOKEN = 16  # characters


class RemoteWorker:
    """The transport to one worker of the server at ``address`` (host, port): a connection is a worker's life.

    ``start_timeout`` seconds are for connecting and for the worker's imports. Raises ValueError for a token that is too
    short to be secret.
    """

    def __init__(self, address: tuple[str, int], token: str, *, start_timeout: float = 60.0) -> None:
        self.address = address
        self.starts = 0
        self._token = token_bytes(token)
        self._start_timeout = start_timeout
        self._using = threading.RLock()  # held while the connection is in use
        self._lock = threading.Lock()  # held while it is made or cut
        self._closed = False
        self._socket: socket.socket | None = None
        self._channel: Channel | None = None
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """The worker's process id on its machine, None while there is none."""
        return self._pid

    def start(self) -> None:
        """As the contract says. Raises WorkerDied where nothing listens, or the tokens differ."""
        with self._using:
            if self._channel is not None:
                return
            if self._closed:
                raise WorkerClosed(f"{self} is closed")
            deadline = time.monotonic() + self._start_timeout
            try:
                connection = socket.create_connection(self.address, self._start_timeout)
            except TimeoutError:
                raise WorkerTimeout(f"{self} did not start within {self._start_timeout:g} s") from None
            except OSError as error:
                raise WorkerDied(f"{self} cannot be reached: {error.strerror or error}", None, "") from None
            with self._lock:
                self._socket = connection
                self.starts += 1
            prepare(connection)
            channel = self._channel = Channel(connection.fileno(), os.dup(connection.fileno()))
            hello = self._exchange(lambda: self._greet(channel, deadline), self._start_timeout, "did not start")
            self._pid = hello["pid"]

    def request(self, payload: Mapping[str, Any], timeout: float, blobs: Mapping[str, Buffer] = NO_BLOBS) -> Message:
        """As the contract says."""
        with self._using:
            self.start()
            channel = self._channel
            if channel is None:
                raise WorkerClosed(f"{self} is closed")
            deadline = time.monotonic() + timeout
            answer = self._exchange(
                lambda: channel.ask(payload, blobs, deadline, seconds=timeout), timeout, "gave no answer"
            )
            if "failed" in answer:
                raise WorkerFailed(one_line(str(answer["failed"])))
            if "timeout" in answer:
                raise self._ended(WorkerTimeout(one_line(str(answer["timeout"]))))
            if "died" in answer:
                code, said = answer.get("returncode"), str(answer.get("stderr", ""))
                died = WorkerDied(one_line(str(answer["died"])), code if isinstance(code, int) else None, said)
                raise self._ended(died)
            result = answer.get("result")
            if not isinstance(result, dict):
                raise self._ended(WorkerDied(f"{self} answered something that is not a JSON object", None, ""))
            return Message(result, answer.blobs)

    def stop(self) -> None:
        """Cut the connection; the server then kills the worker, and the next request starts another."""
        with self._using:
            self._drop()

    def kill(self) -> None:
        """Cut the connection now; a request under way raises WorkerDied."""
        with self._lock:
            _cut(self._socket)

    def close(self) -> None:
        """Cut the connection for good. A request under way in another thread raises WorkerClosed."""
        with self._lock:
            self._closed = True
            _cut(self._socket)
        with self._using:
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return f"the worker at {self.address[0]}:{self.address[1]}"

    def _greet(self, channel: Channel, deadline: float) -> Message:
        theirs = channel.hear(deadline).get("challenge")
        if not isinstance(theirs, str):
            raise ValueError("greeted with something else than the protocol's first line")
        mine = secrets.token_hex(32)
        answer = channel.tell({"proof": proof(self._token, "client", theirs), "challenge": mine}, deadline)
        if "refused" not in answer and not is_proof(answer.get("proof"), self._token, "server", mine):
            raise ValueError("does not know the token")
        if "refused" not in answer:
            answer = channel.hear(deadline)
        if "refused" in answer:
            raise ValueError(f"refused: {one_line(str(answer['refused']))}")
        if not isinstance(answer.get("pid"), int):
            raise ValueError("greeted with something else than the protocol's first line")
        return answer

    def _exchange(self, what: Callable[[], Message], timeout: float, complaint: str) -> Message:
        try:
            return what()
        except TimeoutError:
            raise self._ended(WorkerTimeout(f"{self} {complaint} within {timeout:g} s")) from None
        except EOFError:
            raise self._ended(WorkerDied(f"{self}: the connection was cut", None, "")) from None
        except ValueError as error:
            raise self._ended(WorkerDied(f"{self} {error}", None, "")) from None
        except BaseException:  # Ctrl-C: the answer would be taken for that of the next question
            self._drop()
            raise

    def _ended(self, error: WorkerError) -> WorkerError:
        """Drops the connection; returns ``error``, or that the worker was closed."""
        self._drop()
        return WorkerClosed(f"{self} was closed") if self._closed else error

    def _drop(self) -> None:
        with self._lock:
            connection, channel = self._socket, self._channel
            self._socket = self._channel = self._pid = None
            _cut(connection)
            if channel is not None:
                channel.close()
                os.close(channel.writing)
            if connection is not None:
                connection.close()


def token_bytes(token: str) -> bytes:
    """Raises ValueError for a token that is too short to be secret."""
    if len(token) < LEAST_TOKEN:
        raise ValueError(f"a token needs at least {LEAST_TOKEN} characters: make one with `openssl rand -hex 32`")
    return token.encode()


def proof(token: bytes, who: str, challenge: str) -> str:
    """The answer to ``challenge`` that proves knowledge of the token; ``who`` prevents replaying it to its sender."""
    return hmac.new(token, f"{who} {challenge}".encode(), hashlib.sha256).hexdigest()


def is_proof(said: object, token: bytes, who: str, challenge: str) -> bool:
    return isinstance(said, str) and hmac.compare_digest(said.encode(), proof(token, who, challenge).encode())


def prepare(connection: socket.socket) -> None:
    """Send small messages at once, and notice within minutes that the other machine is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _cut(connection: socket.socket | None) -> None:
    if connection is not None:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was cut already
