"""Hold a stream until all work is queued, so that the GPU does not wait for the host between launches.

A kernel of one thread waits until the host writes a flag in host memory. The kernel has a time limit: a library that
synchronises with the GPU while it queues work would otherwise wait forever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GIVES_UP_SECONDS = 0.05


class StreamHold:
    """Holds back the work that is queued in a stream until the stream is released.

    Args:
        cp: The cupy module.
        function: The loaded kernel ``check_kernels.HOLD``.
    """

    def __init__(self, cp: Any, function: Any) -> None:
        self._cp, self._function = cp, function
        self._memory = cp.cuda.alloc_pinned_memory(8)  # pinned memory that the GPU reads at its host address
        self._words = np.frombuffer(self._memory, np.uint32, 2)

    def hold(self) -> None:
        """Hold the current stream: later work waits for ``release``, or at most for GIVES_UP_SECONDS."""
        self._words[:] = 0
        limit = np.uint64(int(GIVES_UP_SECONDS * 1e9))
        self._function((1,), (1,), (np.uint64(int(self._memory.ptr)), limit))

    def release(self) -> None:
        """Release the stream, so that its work starts."""
        self._words[0] = 1

    @property
    def gave_up(self) -> bool:
        """True if the time limit ended the hold before ``release``. Only valid after the stream was synchronised."""
        return bool(self._words[1])
