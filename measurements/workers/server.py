"""Lends workers of this machine over TCP: ``python -m measurements.workers.server --module M --token-file F``.

Each connection of a ``remote_worker.RemoteWorker`` gets a child process of its own, a ``worker.Worker``, and passes
requests to it. When the connection ends, in whatever way, so does the child with its process group. Blobs are kept
for as long as the server runs, within limits: they are not sent again for the next child. Messages are those of
``messages``; nothing is executed but the module that the server was started with.
"""

from __future__ import annotations

import argparse
import queue
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from measurements.files.text import one_line
from measurements.workers.messages import BlobStore, Buffer, Message, MessageDecoder, frame
from measurements.workers.remote import is_proof, prepare, proof, token_bytes
from measurements.workers.transport import NO_BLOBS, WorkerClosed, WorkerDied, WorkerError, WorkerFailed, WorkerTimeout
from measurements.workers.worker import Worker, received

_STORE_BYTES = 2 << 30  # of blobs, for all connections
_GREETING_SECONDS = 10.0  # for a client to authenticate
_GREETING_BYTES = 4096  # from a client that has not
_READ = 1 << 18  # bytes
_LONGEST_REQUEST = 24 * 3600.0  # seconds


class WorkerServer:
    """Serves clients that know ``token`` on ``host`` and ``port`` (0: any free one), from now on, in threads.

    ``env``, ``python_path`` and ``memory_limit`` are those of ``Worker``. Raises ValueError for a token that is too
    short, OSError where the address is unavailable.
    """

    def __init__(
        self,
        module: str,
        token: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        env: Mapping[str, str] | None = None,
        python_path: Sequence[str] = (),
        memory_limit: int | None = None,
    ) -> None:
        self._token = token_bytes(token)
        self._module, self._env, self._python_path, self._memory_limit = module, env, python_path, memory_limit
        self._store = _SharedStore(_STORE_BYTES)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._closed = False
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                outer._serve(self.request)

        self._server = socketserver.ThreadingTCPServer((host, port), Handler, bind_and_activate=False)
        self._server.allow_reuse_address = self._server.daemon_threads = True
        try:
            self._server.server_bind()
            self._server.server_activate()
        except BaseException:
            self._server.server_close()
            raise
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._server.socket.getsockname()[:2]
        return str(host), int(port)

    def wait(self) -> None:
        """Return when the server has been closed."""
        self._thread.join()

    def close(self) -> None:
        """End every worker and stop listening. Safe to call twice."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            if self._closed:
                return
            self._connections.add(connection)
        try:
            prepare(connection)
            self._converse(connection)
        except (OSError, ValueError, KeyError, TypeError):
            return  # the client is gone or its message malformed: it gets no answer, and its worker ends
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _converse(self, connection: socket.socket) -> None:
        def send(header: Mapping[str, Any], blobs: Mapping[str, Buffer] = NO_BLOBS) -> None:
            for piece in frame(header, blobs):
                connection.sendall(piece)

        unframer = MessageDecoder()
        if not self._admitted(connection, unframer, send):
            return
        with Worker(
            self._module, env=self._env, python_path=self._python_path, memory_limit=self._memory_limit
        ) as worker:
            try:
                worker.start()
            except WorkerError as error:
                send({"refused": one_line(str(error))})
                return
            send({"pid": worker.pid})
            messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

            def read() -> None:
                try:
                    for message in _messages(connection, unframer):
                        messages.put(message)
                except (OSError, ValueError):
                    pass
                messages.put(None)
                worker.close()  # nothing waits for what it is doing

            threading.Thread(target=read, daemon=True).start()

            def hear() -> Message:
                message = messages.get()
                if message is None:
                    raise EOFError
                return message

            try:
                while self._answer(worker, hear(), hear, send):
                    pass
            except EOFError:
                return

    def _admitted(self, connection: socket.socket, unframer: MessageDecoder, send: Any) -> bool:
        """Whether the client knows the token; it is told that the server does."""
        challenge = secrets.token_hex(32)
        send({"challenge": challenge})
        received_bytes, deadline = 0, time.monotonic() + _GREETING_SECONDS
        while (said := unframer.next()) is None:
            connection.settimeout(max(deadline - time.monotonic(), 1e-3))
            chunk = connection.recv(_GREETING_BYTES)
            received_bytes += len(chunk)
            if not chunk or received_bytes > _GREETING_BYTES:
                return False
            unframer.feed(chunk)
        if not is_proof(said.get("proof"), self._token, "client", challenge):
            send({"refused": "the tokens differ"})
            return False
        send({"proof": proof(self._token, "server", str(said["challenge"]))})
        connection.settimeout(None)
        return True

    def _answer(self, worker: Worker, message: Message, hear: Any, send: Any) -> bool:
        """Passes one request on. Whether the worker is still there."""
        number, seconds = message["id"], min(float(message["seconds"]), _LONGEST_REQUEST)
        try:
            request = received(message, self._store, hear, send)
        except ValueError as error:  # bytes of another digest
            send({"id": number, "failed": f"{type(error).__name__}: {error}"})
            return True
        try:
            worker.start()
            if worker.starts > 1:  # the new one lacks what the client sent to the old one
                raise WorkerDied("the worker died while it was idle", None, "")
            answer = worker.request(request, seconds, request.blobs)
        except WorkerFailed as error:
            send({"id": number, "failed": str(error)})
            return True
        except WorkerTimeout as error:
            send({"id": number, "timeout": str(error)})
        except WorkerDied as error:
            send({"id": number, "died": str(error), "returncode": error.returncode, "stderr": error.stderr})
        except WorkerClosed:
            return False
        else:
            send({"id": number, "result": answer}, answer.blobs)
            return True
        return False


class _SharedStore(BlobStore):
    """A store for several threads."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._guard = threading.Lock()

    def add(self, message: Message) -> None:
        with self._guard:
            super().add(message)

    def take(self, digests: Any) -> dict[str, Buffer]:
        with self._guard:
            return super().take(digests)


def _messages(connection: socket.socket, unframer: MessageDecoder) -> Iterator[Message]:
    """Until the connection ends. Raises ValueError for a malformed message."""
    while True:
        while (message := unframer.next()) is not None:
            yield message
        chunk = connection.recv(_READ)
        if not chunk:
            return
        unframer.feed(chunk)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; prints one line with the address on standard output. Exit status 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m measurements.workers.server", description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="measurements.runners.cuda.worker", help="what the workers run")
    parser.add_argument("--token-file", required=True, type=Path, help="a file that only you can read")
    parser.add_argument("--host", default="127.0.0.1", help="interface to listen on; others reach it through ssh -L")
    parser.add_argument("--port", default=0, type=int, help="0: any free port")
    parser.add_argument("--path", action="append", default=[], help="folder in which the module is looked for")
    options = parser.parse_args(arguments)
    try:
        token = options.token_file.read_text().strip()
        server = WorkerServer(options.module, token, host=options.host, port=options.port, python_path=options.path)
    except (OSError, ValueError, OverflowError) as error:
        print(f"worker_server: {one_line(str(error))}", file=sys.stderr)
        return 2
    print(f"listening on {server.address[0]}:{server.address[1]}", flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
