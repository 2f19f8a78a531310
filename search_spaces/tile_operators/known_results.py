"""A cache for results of a slow function, with a limit on the bytes of all results."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Generic, TypeVar

from search_spaces.arrays import Array

Result = TypeVar("Result")


class KnownResults(Generic[Result]):
    """Cached results by key. The least recently used results are dropped first.

    Attributes:
        most_bytes: Limit of the total size of all results. A larger single result is not cached.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._results: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Result], size: Callable[[Result], int]) -> Result:
        """Return the result for ``key``, computed by ``make`` if not cached. ``size`` returns its size in bytes."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key][0]
        result = make()
        occupied = size(result)
        with self._lock:
            if key not in self._results and occupied <= self.most_bytes:
                self._results[key] = result, occupied
                self._bytes += occupied
                while self._bytes > self.most_bytes:
                    self._bytes -= self._results.popitem(last=False)[1][1]
        return result


def contents(arrays: Mapping[str, Array]) -> bytes:
    """Return a digest of the names, types and contents of arrays, without their shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].nbytes}\0".encode())
        digest.update(arrays[name].tobytes())
    return digest.digest()
