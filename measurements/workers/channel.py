"""Channel to a worker, over pipes or a socket, which sends requests and blobs and receives replies."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from measurements.files.text import harmless
from measurements.workers.messages import Buffer, Message, MessageDecoder, checked, frame

_STDERR_TAIL = 8192
_READ = 1 << 18  # maximum bytes of one read
_PIPE_READS = 16  # reads of 64 KiB; enough to empty the largest pipe of an unprivileged process on Linux


class Channel:
    """Non-blocking writes to one descriptor and reads from another. The caller closes the descriptors.

    Each blob is sent once. If the other end has dropped a blob, it requests the blob again.

    Args:
        reading: Descriptor from which messages are read.
        writing: Descriptor to which messages are written.
        errors: Descriptor of the child's standard error, which is drained so that the child never blocks; or None.
        pid: Process id of a child whose exit closes the channel, even while its own children keep the pipes open; or
            None.
    """

    def __init__(self, reading: int, writing: int, errors: int | None = None, pid: int | None = None) -> None:
        self.writing = writing
        self._reading, self._errors = reading, errors
        self._selector = selectors.DefaultSelector()
        for fd in (reading, writing, *([] if errors is None else [errors])):
            os.set_blocking(fd, False)
        for fd in (reading, *([] if errors is None else [errors])):
            self._selector.register(fd, selectors.EVENT_READ)
        self._ended = None if pid is None else _pidfd(pid)
        if self._ended is not None:
            self._selector.register(self._ended, selectors.EVENT_READ)
        self._unframer = MessageDecoder()
        self._unsent: deque[memoryview] = deque()
        self._sent: set[str] = set()  # digests of the blobs that have been sent
        self._tail = b""
        self._questions = 0

    def recv(self, deadline: float) -> Message:
        """Return the next message from the other end. Raises the same errors as ``request``."""
        return self._exchange([], deadline)

    def request(
        self, payload: Mapping[str, Any], blobs: Mapping[str, Buffer], deadline: float, **envelope: object
    ) -> Message:
        """Send a request and return its reply.

        Args:
            payload: The request, as JSON.
            blobs: Blobs that the request needs, by digest. Blobs that were sent before are not sent again.
            deadline: Time limit, as a value of ``time.monotonic``.
            envelope: Further fields of the message, in addition to the payload.

        Returns:
            The message that contains the reply.

        Raises:
            TimeoutError: There was no reply before ``deadline``.
            EOFError: The other end has closed the channel.
            ValueError: The reply is malformed.
        """
        self._questions += 1
        header = {"id": self._questions, "payload": payload, **envelope}
        if blobs:
            header["needs"] = list(blobs)
        new = {digest: content for digest, content in blobs.items() if digest not in self._sent}
        answer = self._exchange(frame(header, new), deadline)
        self._sent.update(new)
        if "missing" in answer:
            missing = answer["missing"]
            if not isinstance(missing, list) or not missing or not all(digest in blobs for digest in missing):
                raise ValueError("requested unknown blobs")
            again = {digest: blobs[digest] for digest in missing}
            answer = self._exchange(frame({"id": self._questions}, again), deadline)
        if answer.get("id") != self._questions:
            raise ValueError("replied to another request")
        return checked(answer)

    def stderr_tail(self) -> str:
        """Return the end of the child's standard error.

        If other processes keep it open, return what the pipe contains.
        """
        for _ in range(_PIPE_READS):
            if self._errors not in self._selector.get_map() or not self._read_stderr():
                break
        return harmless(self._tail.decode(errors="replace"))

    def close(self) -> None:
        """Release the descriptors."""
        self._selector.close()
        if self._ended is not None:
            os.close(self._ended)

    def _exchange(self, pieces: list[Buffer], deadline: float) -> Message:
        self._unsent.extend(memoryview(piece) for piece in pieces)
        if self._unsent:
            self._selector.register(self.writing, selectors.EVENT_WRITE)
        try:
            while True:
                message = self._unframer.next()
                if message is not None:
                    return message
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                ready = {key.fd for key, _ in self._selector.select(remaining)}
                if self.writing in ready:
                    self._send()
                if self._errors in ready:
                    self._read_stderr()
                if self._reading in ready:
                    if not self._receive():
                        raise EOFError
                elif self._ended in ready:
                    raise EOFError
        finally:
            if self.writing in self._selector.get_map():
                self._selector.unregister(self.writing)

    def _send(self) -> None:
        try:
            self._unsent[0] = self._unsent[0][os.write(self.writing, self._unsent[0]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # the other end is gone: drop unsent data, but still read its last output
        while self._unsent and not self._unsent[0]:
            self._unsent.popleft()
        if not self._unsent:
            self._selector.unregister(self.writing)

    def _receive(self) -> bool:
        try:
            chunk = os.read(self._reading, _READ)
        except BlockingIOError:
            return True
        except OSError:  # a reset connection counts as the end of the stream
            return False
        self._unframer.feed(chunk)
        return bool(chunk)

    def _read_stderr(self) -> bool:
        if self._errors is None:
            return False
        try:
            chunk = os.read(self._errors, 1 << 16)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(self._errors)
        self._tail = (self._tail + chunk)[-_STDERR_TAIL:]
        return bool(chunk)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has ended; None before Linux 5.3."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None
