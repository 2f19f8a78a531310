"""Holding a stream until everything is queued, so that the GPU does not wait for the host between two launches.

A kernel of one thread waits for a word of the host's memory. It gives up by itself after a while: a library that waits
for the GPU while it queues would otherwise wait for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GIVES_UP_SECONDS = 0.05


class StreamHold:
    """``function`` is the loaded kernel ``gpu_checks.HOLD``, ``cp`` the cupy module."""

    def __init__(self, cp: Any, function: Any) -> None:
        self._cp, self._function = cp, function
        self._memory = cp.cuda.alloc_pinned_memory(8)  # which the GPU reads at the address that the host has
        self._words = np.frombuffer(self._memory, np.uint32, 2)

    def hold(self) -> None:
        """Keep what is queued behind this on the current stream until ``release``, or after GIVES_UP_SECONDS."""
        self._words[:] = 0
        limit = np.uint64(int(GIVES_UP_SECONDS * 1e9))
        self._function((1,), (1,), (np.uint64(int(self._memory.ptr)), limit))

    def release(self) -> None:
        self._words[0] = 1

    @property
    def gave_up(self) -> bool:
        """Whether the kernel no longer waited when it was released; known once the stream has been waited for."""
        return bool(self._words[1])
