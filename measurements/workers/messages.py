"""Messages between a tuner and its workers. A message is a JSON object and blobs, to which it refers by SHA-256.

The encoding is one line of JSON, followed by the blobs without gaps. The field "blobs" of the JSON lists the [digest,
number of bytes] of each blob.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

Buffer = bytes | memoryview

LONGEST_LINE = 1 << 28  # maximum bytes of a line of JSON
LARGEST_BLOBS = 1 << 36  # maximum total bytes of the blobs of a message


class Message(dict[str, Any]):
    """A JSON object with ``blobs``, a mapping from digest to bytes."""

    def __init__(self, content: Mapping[str, Any] | None = None, blobs: Mapping[str, Buffer] | None = None) -> None:
        super().__init__(content or {})
        self.blobs: dict[str, Buffer] = dict(blobs or {})

    def attach(self, content: Buffer) -> str:
        """Add ``content`` as a blob, and return its digest."""
        digest = digest_of(content)
        self.blobs[digest] = content
        return digest


def digest_of(content: Buffer) -> str:
    """Return the digest that identifies a blob, the SHA-256 of its ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def frame(header: Mapping[str, Any], blobs: Mapping[str, Buffer]) -> list[Buffer]:
    """Return the encoding of a message as a list of buffers.

    Raises TypeError and ValueError if JSON cannot represent the header.
    """
    sizes = [[digest, memoryview(content).nbytes] for digest, content in blobs.items()]
    line = json.dumps({**header, "blobs": sizes} if sizes else header, separators=(",", ":")).encode() + b"\n"
    return [line, *(memoryview(content).cast("B") for content in blobs.values() if memoryview(content).nbytes)]


class MessageDecoder:
    """Incremental decoder that converts received bytes to messages."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._searched = 0  # number of received bytes already searched for an end of line
        self._header: dict[str, Any] | None = None
        self._expected: list[tuple[str, int]] = []
        self._blobs: dict[str, Buffer] = {}

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._received += data

    def next(self) -> Message | None:
        """Return the next complete message, or None if more bytes are needed.

        Blobs are not yet checked (see ``checked``).

        Raises ValueError for a malformed message. The stream is then unusable.
        """
        if self._header is None:
            end = self._received.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._received)
                if self._searched > LONGEST_LINE:
                    raise ValueError(f"wrote {LONGEST_LINE} bytes without an end of line")
                return None
            self._header = _object(bytes(self._received[:end]))
            self._expected = _sizes(self._header.pop("blobs", []))
            del self._received[: end + 1]
            self._searched = 0
        while self._expected:
            digest, size = self._expected[0]
            if len(self._received) < size:
                return None
            self._blobs[digest] = bytes(memoryview(self._received)[:size])
            del self._received[:size]
            del self._expected[0]
        message = Message(self._header, self._blobs)
        self._header, self._blobs = None, {}
        return message


def checked(message: Message) -> Message:
    """Return ``message`` after checking its blobs. Raises ValueError if a blob does not match its digest."""
    for digest, content in message.blobs.items():
        if digest_of(content) != digest:
            raise ValueError(f"sent a blob that does not match its digest {digest[:12]}...")
    return message


class BlobStore:
    """Cache of the most recently used blobs, up to ``limit`` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blobs: OrderedDict[str, Buffer] = OrderedDict()

    def add(self, message: Message) -> None:
        """Store the blobs of ``message``. If a blob does not match its digest, raise ValueError and store none."""
        self._blobs.update(checked(message).blobs)

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Return the ``digests`` whose blobs are not stored."""
        return [digest for digest in digests if digest not in self._blobs]

    def take(self, digests: Iterable[str]) -> dict[str, Buffer]:
        """Return the blobs of ``digests`` and mark them as used. Drop the least recently used blobs above the limit.

        Raises KeyError for a blob that is not stored.
        """
        wanted = {digest: self._blobs[digest] for digest in digests}
        for digest in wanted:
            self._blobs.move_to_end(digest)
        total = sum(len(content) for content in self._blobs.values())
        while total > self._limit and self._blobs:
            total -= len(self._blobs.popitem(last=False)[1])
        return wanted


def _object(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("sent a line that is not a JSON object")
    return document


def _sizes(listed: Any) -> list[tuple[str, int]]:
    try:
        sizes = [(digest, size) for digest, size in listed]
        if all(type(size) is int and size >= 0 and re.fullmatch("[0-9a-f]{64}", digest) for digest, size in sizes):
            if sum(size for _, size in sizes) > LARGEST_BLOBS:
                raise ValueError(f"announced blobs of more than {LARGEST_BLOBS} bytes")
            return sizes
    except TypeError:
        pass
    raise ValueError("announced malformed blobs")
