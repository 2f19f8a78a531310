"""Hold of a stream until all work is queued, so that the GPU does not wait for the host between launches.

A kernel of one thread waits for a word in host memory. It has a time limit, because a library that waits for the GPU
while it queues would otherwise wait forever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GIVES_UP_SECONDS = 0.05


class StreamHold:
    """``function`` is the loaded kernel ``check_kernels.HOLD``, ``cp`` the cupy module."""

    def __init__(self, cp: Any, function: Any) -> None:
        self._cp, self._function = cp, function
        self._memory = cp.cuda.alloc_pinned_memory(8)  # pinned memory that the GPU reads at its host address
        self._words = np.frombuffer(self._memory, np.uint32, 2)

    def hold(self) -> None:
        """Hold work queued after this on the current stream until ``release``, or for GIVES_UP_SECONDS."""
        self._words[:] = 0
        limit = np.uint64(int(GIVES_UP_SECONDS * 1e9))
        self._function((1,), (1,), (np.uint64(int(self._memory.ptr)), limit))

    def release(self) -> None:
        """Let the stream run."""
        self._words[0] = 1

    @property
    def gave_up(self) -> bool:
        """True if the kernel reached its time limit before it was released; known after the stream was synchronised."""
        return bool(self._words[1])
