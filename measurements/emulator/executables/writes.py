"""Read the bytes that a launch wrote to its copy of device memory, in the runner's format (``list_writes``)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

_HEAD = struct.Struct("=QQ")

Stretch = tuple[int, int]  # address, number of bytes


@dataclass(frozen=True, eq=False)
class Writes:
    """Written memory: ``pieces`` has the address and length of each range, and ``data`` the bytes of all ranges."""

    pieces: tuple[Stretch, ...]
    data: npt.NDArray[np.uint8]

    @classmethod
    def read(cls, path: Path) -> Writes:
        """Read a list that the runner has written. It is empty if the file does not exist."""
        content = path.read_bytes()
        pieces, parts, at = [], [], 0
        while at < len(content):
            address, count = _HEAD.unpack_from(content, at)
            at += _HEAD.size
            pieces.append((address, count))
            parts.append(np.frombuffer(content, np.uint8, count, at))
            at += count
        return cls(tuple(pieces), np.concatenate(parts) if parts else np.zeros(0, np.uint8))

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Yield the address and the bytes of each written range."""
        at = 0
        for address, count in self.pieces:
            yield address, self.data[at : at + count].tobytes()
            at += count

    def _addresses(self) -> npt.NDArray[np.uint64]:
        each = [np.arange(address, address + count, dtype=np.uint64) for address, count in self.pieces]
        return np.concatenate(each) if each else np.zeros(0, np.uint64)

    def difference(self, other: Writes) -> npt.NDArray[np.uint64]:
        """Return the sorted addresses of bytes that differ between two lists, or that only one list contains."""
        if self.pieces == other.pieces:
            if np.array_equal(self.data, other.data):
                return np.zeros(0, np.uint64)
            return np.sort(self._addresses()[self.data != other.data])
        mine, theirs = self._addresses(), other._addresses()
        both, at_mine, at_theirs = np.intersect1d(mine, theirs, return_indices=True)
        differ = both[self.data[at_mine] != other.data[at_theirs]]
        return np.union1d(np.setxor1d(mine, theirs), differ)


def stretches(addresses: npt.NDArray[np.uint64]) -> list[Stretch]:
    """Combine ascending addresses of single bytes into contiguous ranges."""
    if addresses.size == 0:
        return []
    breaks = np.flatnonzero(np.diff(addresses) != 1) + 1
    parts = np.split(addresses, breaks)
    return [(int(part[0]), int(part.size)) for part in parts]
