"""Track memory that earlier launches may still use while a dependent launch (``launch_pdl``) runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from measurements.emulator.host_order import Ranges, Use
from measurements.emulator.memory import Unfinished

UsedBytes = npt.NDArray[np.integer[Any]]  # how each byte is used (host_order.Use); 0 if unused


class Overlaps:
    """For each stream, the memory that earlier launches may still use when the next dependent launch starts."""

    def __init__(self) -> None:
        self._uses: dict[
            int, dict[int, tuple[StorageWeakRef, UsedBytes]]
        ] = {}  # keys are the stream, then the address of the storage

    def unfinished(self, stream: int, tensors: Mapping[str, torch.UntypedStorage]) -> tuple[Unfinished, ...]:
        """Return the byte ranges of a launch's arrays that earlier launches may still use.

        Args:
            stream: Stream of the launch.
            tensors: Storages, by array name in the launch.
        """
        uses = self._uses.get(stream, {})
        return tuple(
            Unfinished(name, first, end, only_read)
            for name, storage in tensors.items()
            if (known := uses.get(storage.data_ptr())) is not None and not known[0].expired()
            for only_read, flags in _written_and_read(known[1])
            for first, end in stretches(flags).tolist()
        )

    def launched(self, stream: int, uses: Sequence[tuple[torch.UntypedStorage, UsedBytes]], *, after_all: bool) -> None:
        """Record a launch.

        Args:
            stream: The stream of the launch.
            uses: Storages that the launch accesses, each with the uses of its bytes.
            after_all: True if all earlier launches end before a later dependent launch can begin.
        """
        before = {} if after_all else self._uses.get(stream, {})
        for storage, used in uses:
            known = before.get(storage.data_ptr())
            if known is not None and not known[0].expired():
                used = used | known[1]
            before[storage.data_ptr()] = (StorageWeakRef(storage), used)
        self._uses[stream] = before

    def end(self, stream: int | None = None) -> None:
        """Record other work on a stream, or a wait for a stream (None: for all streams).

        Earlier launches on the stream end before this work begins or the wait returns. So later launches do not overlap
        them.
        """
        if stream is None:
            self._uses.clear()
        else:
            self._uses.pop(stream, None)


def _written_and_read(used: UsedBytes) -> Iterator[tuple[bool, npt.NDArray[np.bool_]]]:
    written = (used & Use.WRITE) != 0
    yield False, written
    yield True, ((used & Use.READ) != 0) & ~written


def stretches(flags: npt.NDArray[np.bool_]) -> Ranges:
    """Return the ranges of consecutive flagged bytes."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)
